#include "sample_io/mixing.h"

#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "sample_io/pass_order.h"

namespace starling {
namespace {

// Days of `groups` row groups each, as they stand in the list: by day.
std::vector<Split> Days(int days, int groups) {
  std::vector<Split> splits;
  for (int i = 0; i < days * groups; ++i) {
    splits.push_back(
        {absl::StrCat("logs/ds=", 20260801 + i / groups, "/a.parquet"), i % groups, 1000});
  }
  return splits;
}

TEST(MixingTest, ShuffledLeasesOfDailyPartitionsStayMixedForEveryWorkerSeedAndPass) {
  const std::vector<Split> splits = Days(14, 20);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    for (uint32_t shards : {1u, 4u}) {
      for (uint32_t shard = 0; shard < shards; ++shard) {
        const Mixing mixing =
            MixingOf(splits, SplitOrder(280, true, seed, seed % 3), shard, shards);
        EXPECT_GE(mixing.partitions, 13);
        EXPECT_LT(std::fabs(mixing.order_correlation), shards == 1 ? 0.25 : 0.45);
        EXPECT_LT(mixing.same_share, 0.25);
        EXPECT_FALSE(mixing.poor()) << "seed " << seed << ", worker " << shard;
      }
    }
  }
}

TEST(MixingTest, TheOrderOfFilesIsPoorHoweverManySplitsADayHas) {
  for (int groups : {1, 2, 20}) {
    const int splits = 14 * groups;
    const Mixing mixing = MixingOf(Days(14, groups), SplitOrder(splits, false, 1, 0));
    EXPECT_GT(mixing.order_correlation, 0.99);
    EXPECT_TRUE(mixing.poor()) << groups;
  }
}

// Days in random order, but each from end to end.
TEST(MixingTest, RunsOfOnePartitionArePoor) {
  std::vector<uint32_t> order;
  for (uint32_t day : {3u, 0u, 5u, 1u, 4u, 2u}) {
    for (uint32_t group = 0; group < 10; ++group) order.push_back(day * 10 + group);
  }
  const Mixing mixing = MixingOf(Days(6, 10), order);
  EXPECT_LT(std::fabs(mixing.order_correlation), 0.5);
  EXPECT_GT(mixing.same_share, 0.9);
  EXPECT_NEAR(mixing.chance_share, 1.0 / 6, 1e-9);
  EXPECT_TRUE(mixing.poor());
}

TEST(MixingTest, OnePartitionIsNeverPoor) {
  EXPECT_FALSE(MixingOf(Days(1, 20), SplitOrder(20, false, 1, 0)).poor());
}

}  // namespace
}  // namespace starling
