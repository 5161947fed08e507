#include "sample_io/id_order.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/hash.h"
#include "sample_io/grow.h"

namespace starling {
namespace {

// Below this many, counting would cost more than it saves.
constexpr size_t kFew = 256;
// From so many on they are parted first, so that what is sorted at a time stays in a core's
// first caches: about so many, in no more parts than it can write to side by side.
constexpr size_t kMany = 1 << 15, kPartIds = 4096;
constexpr int kPartBitsMax = 7;
constexpr int kBucketBits = std::bit_width(kBuckets) - 1;
// Leading bits by which ids are counted, beyond those that number them: of so many values one in
// thirty stands behind a larger one that has the same, which a processor guesses well.
constexpr int kMoreBits = 4;
// Steps an id may go back on average, before the rest is left to std::sort.
constexpr size_t kStepsMax = 16;

bool Before(const NumberedId& a, const NumberedId& b) {
  return a.id != b.id ? IdBefore(a.id, b.id) : a.number < b.number;
}

// The leading bits of an id's place in the order, which begin with its bucket.
uint64_t OrderOf(uint64_t id) {
  return uint64_t{BucketOf(id)} << (64 - kBucketBits) | id >> kBucketBits;
}

// Moves every key back to its place among those before it, which is seldom far. Returns false, with
// all keys there, if too many were.
bool Insert(std::span<uint64_t> keys) {
  size_t steps = 0;
  const size_t steps_max = kStepsMax * keys.size();
  for (size_t i = 1; i < keys.size(); ++i) {
    const uint64_t own = keys[i];
    if (own >= keys[i - 1]) continue;
    size_t at = i;
    for (; at > 0 && own < keys[at - 1]; --at) keys[at] = keys[at - 1];
    keys[at] = own;
    steps += i - at;
    if (steps > steps_max) return false;
  }
  return true;
}

// From counts to where each digit begins.
void Sum(size_t digits, uint32_t* starts) {
  uint32_t sum = 0;
  for (size_t d = 0; d < digits; ++d) sum += std::exchange(starts[d], sum);
}

// Keys do not tell ids apart that have the same leading bits: puts these in order.
void SortEqual(std::span<NumberedId> ids, int number_bits) {
  auto differ = [&](size_t i, size_t j) {
    return (OrderOf(ids[i].id) ^ OrderOf(ids[j].id)) >> number_bits != 0;
  };
  for (size_t begin = 0, end = 0; begin < ids.size(); begin = end) {
    bool sorted = true;
    for (end = begin + 1; end < ids.size() && !differ(begin, end); ++end) {
      sorted = sorted && ids[end - 1].id <= ids[end].id;
    }
    if (!sorted) std::sort(ids.begin() + begin, ids.begin() + end, Before);
  }
}

}  // namespace

// Sorts keys that begin with the same `known` bits: by the second half of the next bits, then by
// the first. One turn by all of them would leave the cache, and one by fewer would leave
// comparisons to guess wrong.
void IdOrder::SortKeys(size_t n, int known, uint64_t* keys) {
  const int bits = static_cast<int>(std::bit_width(n)) + kMoreBits, second_bits = bits / 2;
  const int first_bits = bits - second_bits;
  const int first_shift = 64 - known - first_bits, second_shift = first_shift - second_bits;
  const uint64_t first_mask = (uint64_t{1} << first_bits) - 1;
  const uint64_t second_mask = (uint64_t{1} << second_bits) - 1;
  starts_.assign(first_mask + second_mask + 2, 0);
  uint32_t* const first = starts_.data();
  uint32_t* const second = first + first_mask + 1;
  for (size_t i = 0; i < n; ++i) {
    ++first[keys[i] >> first_shift & first_mask];
    ++second[keys[i] >> second_shift & second_mask];
  }
  Sum(first_mask + 1, first);
  Sum(second_mask + 1, second);
  GrowTo(n, &half_sorted_);
  uint64_t* const half = half_sorted_.data();
  for (size_t i = 0; i < n; ++i) half[second[keys[i] >> second_shift & second_mask]++] = keys[i];
  for (size_t i = 0; i < n; ++i) keys[first[half[i] >> first_shift & first_mask]++] = half[i];
  if (!Insert({keys, n})) std::sort(keys, keys + n);
}

// As SortKeys, of all.
void IdOrder::SortParts(size_t n) {
  const int part_bits = std::min<int>(kPartBitsMax, std::bit_width(n / kPartIds));
  const int shift = 64 - part_bits;
  const size_t parts = size_t{1} << part_bits;
  part_starts_.assign(parts, 0);
  uint32_t* const starts = part_starts_.data();
  for (size_t i = 0; i < n; ++i) ++starts[keys_[i] >> shift];
  Sum(parts, starts);
  GrowTo(n, &parted_);
  for (size_t i = 0; i < n; ++i) parted_[starts[keys_[i] >> shift]++] = keys_[i];
  keys_.swap(parted_);
  for (size_t p = 0, begin = 0; p < parts; begin = starts[p++]) {
    SortKeys(starts[p] - begin, part_bits, keys_.data() + begin);
  }
}

std::span<const NumberedId> IdOrder::Sort(std::span<const uint64_t> ids) {
  const size_t n = ids.size();
  GrowTo(n, &sorted_);
  const std::span<NumberedId> sorted(sorted_.data(), n);
  auto given = [&](size_t i) { return NumberedId{ids[i], static_cast<uint32_t>(i)}; };
  if (n < kFew) {
    for (size_t i = 0; i < n; ++i) sorted[i] = given(i);
    std::sort(sorted.begin(), sorted.end(), Before);
    return sorted;
  }
  GrowTo(n, &keys_);
  const int number_bits = static_cast<int>(std::bit_width(n - 1));
  const uint64_t numbers = (uint64_t{1} << number_bits) - 1;
  for (size_t i = 0; i < n; ++i) keys_[i] = (OrderOf(ids[i]) & ~numbers) | i;
  n < kMany ? SortKeys(n, 0, keys_.data()) : SortParts(n);

  constexpr size_t kAhead = 32;
  const uint64_t* keys = keys_.data();
  bool equal = false;
  for (size_t i = 0; i < n; ++i) {
    __builtin_prefetch(&ids[keys[std::min(i + kAhead, n - 1)] & numbers]);
    sorted[i] = given(keys[i] & numbers);
    equal |= i > 0 && (keys[i] ^ keys[i - 1]) <= numbers;
  }
  if (equal) SortEqual(sorted, number_bits);
  return sorted;
}

}  // namespace starling
