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
  // Stable, from `from` to `to` by digit(id) < 2^bits.
  template <typename From, typename Digit>
  void Scatter(const From& from, size_t n, int bits, Digit digit, NumberedId* to);

  std::vector<NumberedId> sorted_, spare_;
  std::vector<uint32_t> starts_;  // By digit.
};

}  // namespace starling
