#include "embedding_store/multi_hash.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/hash.h"
#include "base/random.h"
#include "embedding_store/table_test_util.h"

namespace starling {
namespace {

MultiHashOptions Options(int64_t rows, MultiHashOptions::Combine combine) {
  MultiHashOptions options;
  options.set_rows(rows);
  options.set_combine(combine);
  return options;
}

// Checkpoints and bundles hold rows under these ids.
TEST(MultiHashTest, PartIdsAreFrozen) {
  const std::vector<uint64_t> ids = {0, 1, 0x123456789ABCDEF0ull};
  const MultiHashParts parts = SplitIds(Options(1000, MultiHashOptions::ADD), ids);
  EXPECT_EQ(parts.ids, (std::vector<uint64_t>{16744396141311075403ull, 2854622412385396877ull,
                                              4055552547555681654ull, 2853079505341992025ull,
                                              16087705836297646781ull, 11062672746494804232ull}));
  EXPECT_EQ(parts.first, (std::vector<uint32_t>{0, 2, 4}));
  EXPECT_EQ(parts.second, (std::vector<uint32_t>{1, 3, 5}));
}

TEST(MultiHashTest, IdsSpreadEvenlyOverPairsAndPartsOverBuckets) {
  constexpr int kRows = 64, kIds = 64 * 1000;
  const std::vector<uint64_t> ids = MakeIds(0, kIds);
  const MultiHashParts parts = SplitIds(Options(kRows, MultiHashOptions::ADD), ids);
  ASSERT_EQ(parts.ids.size(), 2 * kRows);
  std::vector<int> first(2 * kRows), second(2 * kRows);
  std::set<std::pair<uint32_t, uint32_t>> pairs;
  for (int i = 0; i < kIds; ++i) {
    ++first[parts.first[i]];
    ++second[parts.second[i]];
    pairs.emplace(parts.first[i], parts.second[i]);
  }
  EXPECT_EQ(pairs.size(), kRows * kRows);
  for (int p = 0; p < 2 * kRows; ++p) {
    EXPECT_TRUE((first[p] == 0) != (second[p] == 0)) << "a part id serves one part";
    EXPECT_NEAR(first[p] + second[p], 1000, 6 * std::sqrt(1000.0));
  }
  std::set<uint32_t> buckets, stripes;
  for (uint64_t id : parts.ids) {
    buckets.insert(BucketOf(id));
    stripes.insert(BucketOf(id) % 64);
  }
  EXPECT_GT(buckets.size(), 115);
  EXPECT_GT(stripes.size(), 45);  // 55 of 64 is what 128 throws give.
}

TEST(MultiHashTest, GradientsAreTheSlopesOfTheCombination) {
  constexpr int kWidth = 3;
  const std::vector<uint64_t> ids = MakeIds(0, 12);  // Of 4 + 4 parts: every part is shared.
  for (auto combine : {MultiHashOptions::ADD, MultiHashOptions::MULTIPLY}) {
    const MultiHashOptions options = Options(4, combine);
    const MultiHashParts parts = SplitIds(options, ids);
    std::vector<float> weights(parts.ids.size() * kWidth), grads(ids.size() * kWidth);
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = RandomNormal(1, i);
    for (size_t i = 0; i < grads.size(); ++i) grads[i] = RandomNormal(2, i);
    auto loss = [&](const std::vector<float>& w) {
      std::vector<float> out(grads.size());
      CombineParts(options, parts, kWidth, w, out);
      double sum = 0;
      for (size_t i = 0; i < out.size(); ++i) sum += double{grads[i]} * out[i];
      return sum;
    };
    const std::vector<float> got = PartGradients(options, parts, kWidth, weights, grads);
    for (size_t i = 0; i < weights.size(); ++i) {
      std::vector<float> up = weights, down = weights;
      up[i] += 0.125f;
      down[i] -= 0.125f;
      EXPECT_NEAR(got[i], (loss(up) - loss(down)) / (double{up[i]} - down[i]), 1e-4) << i;
    }
  }
}

TEST(MultiHashTest, SettingsOutsideTheirRangeAndOthersThanAFilesAreNamed) {
  EXPECT_TRUE(CheckMultiHash(Options(2, MultiHashOptions::ADD)).ok());
  EXPECT_TRUE(CheckMultiHash(Options(1 << 28, MultiHashOptions::ADD)).ok());
  for (int64_t rows : {int64_t{-1}, int64_t{0}, int64_t{1}, (int64_t{1} << 28) + 1}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CheckMultiHash(Options(rows, MultiHashOptions::ADD))));
  }
  TableOptions plain, add, multiply;
  *add.mutable_multi_hash() = Options(10, MultiHashOptions::ADD);
  *multiply.mutable_multi_hash() = Options(10, MultiHashOptions::MULTIPLY);
  EXPECT_TRUE(SameMultiHash("f", add, add).ok());
  EXPECT_TRUE(SameMultiHash("f", plain, plain).ok());
  EXPECT_EQ(SameMultiHash("f", add, multiply).message(),
            "f: the file's rows have multi_hash {rows: 10, combine: add}, the table's multi_hash "
            "{rows: 10, combine: multiply}");
  EXPECT_EQ(SameMultiHash("f", plain, add).code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace starling
