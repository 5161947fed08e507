#include "sample_io/id_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/hash.h"

namespace starling {
namespace {

// As one would write it down.
std::vector<std::pair<uint64_t, uint32_t>> Sorted(const std::vector<uint64_t>& ids) {
  std::vector<std::pair<uint64_t, uint32_t>> out;
  for (size_t i = 0; i < ids.size(); ++i) out.emplace_back(ids[i], i);
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return IdBefore(a.first, b.first); });
  return out;
}

void ExpectSorted(const std::vector<uint64_t>& ids, IdOrder* order) {
  std::vector<std::pair<uint64_t, uint32_t>> out;
  for (const NumberedId& of : order->Sort(ids)) out.emplace_back(of.id, of.number);
  EXPECT_TRUE(out == Sorted(ids)) << ids.size() << " ids";
}

// The id whose BucketHash this is.
uint64_t IdOfHash(uint64_t hash) {
  uint64_t inverse = BucketHash(1);  // Newton: each step doubles the digits that are right.
  for (int i = 0; i < 6; ++i) inverse *= 2 - BucketHash(1) * inverse;
  return hash * inverse;
}

TEST(IdOrderTest, HashesComeByBucketThenIdAndEqualOnesByNumber) {
  IdOrder order;  // Reused, from the most to none.
  for (size_t n : {600'000, 200'000, 32'768, 32'767, 14'000, 4'096, 257, 256, 255, 2, 1, 0}) {
    std::vector<uint64_t> ids;
    for (size_t i = 0; i < n; ++i) ids.push_back(HashInt64(static_cast<int64_t>(i % 50'000), 7));
    ExpectSorted(ids, &order);
  }
}

TEST(IdOrderTest, IdsThatAreNoHashesAreOrderedToo) {
  IdOrder order;
  for (size_t n : {2'000, 100'000}) {
    std::vector<uint64_t> small, one_bucket, descending;
    for (size_t i = 0; i < n; ++i) {
      small.push_back(n - i);
      one_bucket.push_back(IdOfHash(uint64_t{77} << 52 | (i * 12'345) % n));
    }
    ASSERT_EQ(BucketOf(one_bucket.front()), 77u);
    ASSERT_EQ(BucketOf(one_bucket.back()), 77u);
    descending = one_bucket;
    std::sort(descending.rbegin(), descending.rend());
    for (const auto& ids : {small, one_bucket, descending, std::vector<uint64_t>(n, 5)}) {
      ExpectSorted(ids, &order);
    }
  }
}

// Keys of the sort hold the leading bits alone.
TEST(IdOrderTest, HashesThatDifferInTheirLastBitsAreToldApart) {
  IdOrder order;
  for (size_t n : {300, 40'000}) {
    std::vector<uint64_t> ids;
    // Each twice; some fall into one bucket.
    for (size_t i = 0; i < n; ++i) ids.push_back(HashInt64(1, 7) ^ (n - i) % (n / 2));
    ExpectSorted(ids, &order);
  }
}

}  // namespace
}  // namespace starling
