// Puts the ids of a batch's slots into the order of (bucket, id).
//
// Ids are hashes, so that counting them by their leading bits leaves next to
// nothing to compare. Ids that are none are ordered as well, only slower.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace starling {

// An id of one slot, and its number among those of all slots.
struct NumberedId {
  uint64_t id;
  uint32_t number;
};

// Reused between batches. Not thread-safe: one a thread.
class IdOrder {
 public:
  // All ids, numbered as they stand, by (bucket, id); equal ones by number. Good
  // until the next call. REQUIRES: ids.size() < 2^32.
  std::span<const NumberedId> Sort(std::span<const uint64_t> ids);

 private:
  void SortKeys(size_t n, int known, uint64_t* keys);
  void SortParts(size_t n);

  std::vector<NumberedId> sorted_;
  // By id: the leading bits of its place in the order, and behind them its number. Half of
  // the bytes to move, and a comparison is one of integers.
  std::vector<uint64_t> keys_;
  std::vector<uint64_t> parted_, half_sorted_;
  std::vector<uint32_t> starts_;       // By digit, of two.
  std::vector<uint32_t> part_starts_;  // By part.
};

}  // namespace starling
