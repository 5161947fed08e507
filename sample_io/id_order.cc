#include "sample_io/id_order.h"

#include <algorithm>
#include <bit>

#include "base/hash.h"
#include "sample_io/grow.h"

namespace starling {
namespace {

// Below this many, counting by bucket would cost more than it saves.
constexpr size_t kFew = 1024;
// From so many on, counters of all digits at once would not stay in a core's caches.
constexpr size_t kMany = 1 << 16;
constexpr int kBucketBits = std::bit_width(kBuckets) - 1;
constexpr int kManyBits = 8;  // Of an id, sorted by before its bucket.
// Steps an id may go back on average, before the rest is left to std::sort.
constexpr size_t kStepsMax = 16;

bool Before(const NumberedId& a, const NumberedId& b) {
  return a.id != b.id ? IdBefore(a.id, b.id) : a.number < b.number;
}

// Moves every id back to its place among those before it, which is seldom far. Returns false, with
// all ids there, if too many were. REQUIRES: they stand by bucket.
bool Insert(std::span<NumberedId> ids) {
  size_t steps = 0;
  const size_t steps_max = kStepsMax * ids.size();
  uint32_t last_bucket = ids.empty() ? 0 : BucketOf(ids[0].id);
  for (size_t i = 1; i < ids.size(); ++i) {
    const NumberedId own = ids[i];
    const uint32_t bucket = BucketOf(own.id);
    // One branch: whether an id is less than one of another bucket cannot be guessed.
    const bool back = (bucket == last_bucket) & (own.id < ids[i - 1].id);
    last_bucket = bucket;
    if (!back) continue;
    size_t at = i;
    do {
      ids[at] = ids[at - 1];
      --at;
    } while (at > 0 && IdBefore(own.id, ids[at - 1].id));
    ids[at] = own;
    steps += i - at;
    if (steps > steps_max) return false;
  }
  return true;
}

}  // namespace

template <typename From, typename Digit>
void IdOrder::Scatter(const From& from, size_t n, int bits, Digit digit, NumberedId* to) {
  const size_t digits = size_t{1} << bits;
  starts_.assign(digits + 1, 0);
  uint32_t* starts = starts_.data();
  for (size_t i = 0; i < n; ++i) ++starts[digit(from(i).id) + 1];
  for (size_t d = 0; d < digits; ++d) starts[d + 1] += starts[d];
  for (size_t i = 0; i < n; ++i) {
    const NumberedId of = from(i);
    to[starts[digit(of.id)]++] = of;
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
  if (n < kMany) {
    // About an id a digit: the bucket, and the first bits of the id where there are many more.
    const int of_id = static_cast<int>(std::bit_width(n / (kBuckets + kBuckets / 2)));
    auto digit = [of_id](uint64_t id) {
      return static_cast<uint64_t>(BucketOf(id)) << of_id | (id >> 1 >> (63 - of_id));
    };
    Scatter(given, n, kBucketBits + of_id, digit, sorted.data());
  } else {
    GrowTo(n, &spare_);
    Scatter(
        given, n, kManyBits, [](uint64_t id) { return id >> (64 - kManyBits); }, spare_.data());
    auto spare = [this](size_t i) { return spare_[i]; };
    Scatter(
        spare, n, kBucketBits, [](uint64_t id) { return BucketOf(id); }, sorted.data());
  }
  if (!Insert(sorted)) std::sort(sorted.begin(), sorted.end(), Before);
  return sorted;
}

}  // namespace starling
