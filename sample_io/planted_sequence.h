// PlantedSequence: what the users of a PlantedModel saw before, and how that
// bears on a click. An item belongs to a category; the logit rises if the user
// has seen the target's category before, and once more if one of the last
// kRecent events was of it. The categories of targets and of events have no
// effect of their own: a model finds the first by holding events against the
// target, and the second by their order, too.
//
// Every value is a function of (seed, row). A const object; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

namespace starling {

class PlantedSequence {
 public:
  static constexpr int64_t kItems = 2000, kCategories = 100;
  static constexpr int kRecent = 2;

  // Users have seen 0 .. length_max events.
  PlantedSequence(uint64_t seed, int length_max) : seed_(seed), length_max_(length_max) {}

  struct Row {
    int64_t item = 0;
    std::vector<int64_t> seen_items;  // Oldest first.
    double logit = 0;                 // What all this adds.
  };
  // The events are those of row `user`.
  void Fill(int64_t row, int64_t user, Row* out) const;
  static int64_t CategoryOf(int64_t item) { return item % kCategories; }

 private:
  const uint64_t seed_;
  const int length_max_;
};

}  // namespace starling
