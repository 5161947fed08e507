// PlantedSlots: rows as large recommenders log them, with a known truth: 80
// slots of one id and 20 lists of 10 to 30 (20 on average, so 480 ids a row),
// with 100 to a million ids a slot, drawn by Zipf's law. The logit is a bias,
// an effect of each frequent id of the single slots, and the mean effect of the
// frequent ids of each list, so that sums and means of embeddings can learn it.
//
// Every value is a function of (seed, row). A const object; thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace starling {

class PlantedSlots {
 public:
  static constexpr int kSingles = 80, kLists = 20, kSlots = kSingles + kLists;
  static constexpr int kListMin = 10, kListMax = 30;

  explicit PlantedSlots(uint64_t seed);

  // Of slot s: the single ones first, then the lists.
  static int64_t Cardinality(int s);

  struct Row {
    std::array<int64_t, kSingles> singles;
    std::array<std::vector<int64_t>, kLists> lists;
    double probability;
    bool click;
  };
  void Fill(int64_t row, Row* out) const;

 private:
  // Rank 0 is the most frequent id of a slot.
  int64_t DrawRank(int slot, int64_t draw) const;
  int64_t IdOf(int slot, int64_t rank) const;
  double Effect(int slot, int64_t rank) const;
  double Logit(int64_t row, Row* out) const;

  const uint64_t seed_;
  std::array<int64_t, kSlots> cardinality_;
  std::array<double, kSlots> log_cardinality_;
};

}  // namespace starling
