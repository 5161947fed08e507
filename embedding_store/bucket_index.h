// BucketIndex: id -> slot, open addressing over cache lines of five entries, so
// that nearly every lookup touches one line. Any id is allowed, 0 too.
//
// An entry that does not fit its home line lives in a later one; every line
// counts the entries that passed over it, so a search knows where to stop and
// an erase leaves no tombstone behind.
//
// Thread safety: none; the stripe's lock guards it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"

namespace starling {

class BucketIndex {
 public:
  static constexpr uint32_t kNone = 0xFFFFFFFF;

  BucketIndex() : lines_(1) {}

  // Brings the line of `id` into cache ahead of Find.
  void Prefetch(uint64_t id) const { __builtin_prefetch(&lines_[Home(id)]); }
  // The slot of `id`, or kNone.
  uint32_t Find(uint64_t id) const {
    const size_t home = Home(id);
    size_t l = home;
    do {
      const Line& line = lines_[l];
      for (uint32_t i = 0; i < line.used; ++i) {
        if (line.ids[i] == id) return line.slots[i];
      }
      if (line.passed == 0) return kNone;
      l = Next(l);
    } while (l != home);  // In a tiny index every line may have been passed.
    return kNone;
  }
  // REQUIRES: id is absent.
  void Insert(uint64_t id, uint32_t slot);
  // REQUIRES: id is present.
  void Erase(uint64_t id);

  int64_t size() const { return size_; }
  int64_t bytes() const { return static_cast<int64_t>(lines_.size() * sizeof(Line)); }
  // What the next Insert adds to bytes(): 0, or as much again as there is.
  int64_t growth_bytes() const { return Full() ? bytes() : 0; }

 private:
  static constexpr uint32_t kEntries = 5;
  struct alignas(64) Line {
    uint64_t ids[kEntries];
    uint32_t slots[kEntries];
    uint16_t used = 0;
    uint16_t passed = 0;  // Entries whose home is here or before, and which live further on.
  };
  static_assert(sizeof(Line) == 64);

  size_t Home(uint64_t id) const { return Mix64(id) & (lines_.size() - 1); }
  size_t Next(size_t line) const { return (line + 1) & (lines_.size() - 1); }
  bool Full() const { return size_ >= static_cast<int64_t>(lines_.size() * 4); }
  void Grow();

  std::vector<Line> lines_;  // A power of two.
  int64_t size_ = 0;
};

}  // namespace starling
