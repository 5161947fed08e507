#include "embedding_store/stripe_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/random.h"

namespace starling {
namespace {

std::vector<uint64_t> RandomIds(size_t n) {
  std::vector<uint64_t> ids;
  for (size_t i = 0; i < n; ++i) ids.push_back(RandomBits(n, i));
  return ids;
}

// By stripe, as one would write it down.
std::map<uint32_t, std::vector<uint64_t>> ByStripe(const std::vector<uint64_t>& ids, int shift) {
  std::map<uint32_t, std::vector<uint64_t>> parts;
  for (const uint64_t id : ids) parts[BucketOf(id) >> shift].push_back(id);
  return parts;
}

void ExpectParts(const std::vector<uint64_t>& ids, int stripes, int shift, bool ordered) {
  const StripeParts split(ids, stripes, shift);
  EXPECT_EQ(split.positions.empty(), ordered || ids.empty());
  auto want = ByStripe(ids, shift);
  for (int s = 0; s < stripes; ++s) {
    const StripePart& part = split.parts[s];
    EXPECT_EQ(std::vector<uint64_t>(part.ids.begin(), part.ids.end()), want[s])
        << "stripe " << s << " of " << ids.size() << " ids";
    for (size_t k = 0; k < part.ids.size(); ++k) EXPECT_EQ(ids[part.position(k)], part.ids[k]);
  }
}

TEST(StripePartsTest, OrderedIdsStayWhereTheyAre) {
  for (const auto& [stripes, shift] : {std::pair{64, 6}, {4, 10}, {1, 12}}) {
    for (const size_t n : {0, 1, 2, 63, 64, 65, 127, 128, 1000, 20000}) {
      std::vector<uint64_t> ids = RandomIds(n);
      std::sort(ids.begin(), ids.end(), IdBefore);
      ExpectParts(ids, stripes, shift, true);
    }
  }
}

// Wherever the one stands that comes too late.
TEST(StripePartsTest, OthersAreGrouped) {
  std::vector<uint64_t> ids = RandomIds(200);
  std::sort(ids.begin(), ids.end(), IdBefore);
  for (size_t at = 1; at < ids.size(); ++at) {
    if (BucketOf(ids[at - 1]) >> 6 == BucketOf(ids[at]) >> 6) continue;
    std::swap(ids[at - 1], ids[at]);
    ExpectParts(ids, 64, 6, false);
    std::swap(ids[at - 1], ids[at]);
  }
  ExpectParts(RandomIds(1000), 64, 6, false);
}

}  // namespace
}  // namespace starling
