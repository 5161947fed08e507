#include "sample_io/mixing.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "sample_io/pass_order.h"

namespace starling {
namespace {

// 14 days of 20 row groups each, as they stand in the list: by day.
std::vector<Split> Days() {
  std::vector<Split> splits;
  for (int i = 0; i < 280; ++i) {
    splits.push_back({absl::StrCat("logs/ds=", 20260801 + i / 20, "/a.parquet"), i % 20, 1000});
  }
  return splits;
}

TEST(MixingTest, ShuffledLeasesOfDailyPartitionsStayMixedForEveryWorkerAndSeed) {
  const std::vector<Split> splits = Days();
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    for (uint32_t shards : {1u, 4u}) {
      for (uint32_t shard = 0; shard < shards; ++shard) {
        const Mixing mixing = MixingOf(splits, SplitOrder(280, true, seed, 0), shard, shards);
        EXPECT_EQ(mixing.partitions, 14);
        EXPECT_NEAR(mixing.even_share, 1.0 / 14, 0.12);
        EXPECT_LT(mixing.worst_share, 0.3) << "seed " << seed << ", worker " << shard;
        EXPECT_FALSE(mixing.poor());
      }
    }
  }
}

TEST(MixingTest, TheOrderOfFilesIsPoor) {
  std::vector<Split> splits = Days();
  splits.resize(40);  // Two days.
  const Mixing mixing = MixingOf(splits, SplitOrder(40, false, 1, 0));
  EXPECT_EQ(mixing.window, 16);
  EXPECT_EQ(mixing.worst_share, 1);
  EXPECT_EQ(mixing.even_share, 0.5);
  EXPECT_TRUE(mixing.poor());
}

TEST(MixingTest, OnePartitionIsNeverPoor) {
  std::vector<Split> splits = Days();
  splits.resize(20);
  EXPECT_FALSE(MixingOf(splits, SplitOrder(20, false, 1, 0)).poor());
}

}  // namespace
}  // namespace starling
