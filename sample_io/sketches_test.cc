#include "sample_io/sketches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "base/random.h"

namespace starling {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

HyperLogLog Distinct(uint64_t key, int64_t n) {
  HyperLogLog sketch;
  for (int64_t i = 0; i < n; ++i) sketch.Add(RandomBits(key, i));
  return sketch;
}

// Over 16 independent runs a cardinality: the root of the mean square of the
// relative error stays near the standard error, and no run is 5 of them off.
TEST(HyperLogLogTest, ErrorStaysInItsBoundOverManyCardinalities) {
  for (int64_t n : {1, 2, 5, 10, 30, 100, 300, 1000, 3000, 10000, 20000, 40000, 60000, 80000,
                    100000, 200000, 1000000}) {
    const int runs = 16;
    double squares = 0;
    for (int run = 0; run < runs; ++run) {
      const double off = Distinct(run + 100, n).Estimate() / static_cast<double>(n) - 1;
      EXPECT_LE(std::abs(off), 5 * HyperLogLog::kStandardError) << n << " in run " << run;
      squares += off * off;
    }
    EXPECT_LE(std::sqrt(squares / runs), 1.5 * HyperLogLog::kStandardError) << n;
  }
}

TEST(HyperLogLogTest, EmptyIsZeroAndRepeatsDoNotCount) {
  EXPECT_EQ(HyperLogLog().Estimate(), 0);
  HyperLogLog sketch;
  for (int i = 0; i < 1000; ++i) sketch.Add(RandomBits(1, i % 7));
  EXPECT_NEAR(sketch.Estimate(), 7, 0.01);
}

TEST(HyperLogLogTest, MergedPartsEqualTheWholeWhateverTheOrder) {
  HyperLogLog parts[3], forth, back;
  for (int i = 0; i < 30000; ++i) parts[i % 3].Add(RandomBits(5, i));
  for (int i = 0; i < 3; ++i) forth.Merge(parts[i]);
  for (int i = 2; i >= 0; --i) back.Merge(parts[i]);
  EXPECT_EQ(forth, Distinct(5, 30000));
  EXPECT_EQ(back, forth);
}

// A skewed stream: key k comes about n / k times.
std::vector<uint64_t> Skewed(int n) {
  std::vector<uint64_t> keys;
  for (int i = 0; i < n; ++i) {
    keys.push_back(static_cast<uint64_t>(std::pow(20000.0, RandomUniform(3, i))));
  }
  return keys;
}

TEST(TopValuesTest, FewDistinctKeysAreCountedExactly) {
  TopValues top(4);
  for (const char* word : {"b", "a", "c", "a", "b", "a"}) top.Add(word[0], word);
  EXPECT_TRUE(top.exact());
  EXPECT_EQ(top.total(), 6);
  std::vector<std::string> shown;
  for (const auto& e : top.Top(2)) shown.push_back(absl::StrCat(e.text, " ", e.count));
  EXPECT_THAT(shown, ElementsAre("a 3", "b 2"));
}

TEST(TopValuesTest, EqualCountsStandInOrderOfTextThenKey) {
  TopValues top(8);
  for (uint64_t key : {3, 1, 2}) top.Add(key, "");
  top.Add(~uint64_t{0}, "");  // -1
  std::vector<uint64_t> keys;
  for (const auto& e : top.Top(9)) keys.push_back(e.key);
  EXPECT_THAT(keys, ElementsAre(~uint64_t{0}, 1, 2, 3));
}

class TopValuesParts : public testing::TestWithParam<int> {};

TEST_P(TopValuesParts, EveryTrueCountLiesInItsBounds) {
  const int n = 200000, capacity = 100;
  std::map<uint64_t, int64_t> truth;
  std::vector<TopValues> parts(GetParam(), TopValues(capacity));
  int at = 0;
  for (uint64_t key : Skewed(n)) {
    ++truth[key];
    parts[static_cast<int64_t>(at++) * GetParam() / n].Add(key, "");
  }
  TopValues top(capacity);
  for (const TopValues& part : parts) top.Merge(part);
  EXPECT_EQ(top.total(), n);
  EXPECT_FALSE(top.exact());
  EXPECT_LE(top.error(), n / (capacity + 1));
  for (const auto& [key, count] : truth) {
    EXPECT_LE(top.Count(key), count) << key;
    EXPECT_GE(top.Count(key) + top.error(), count) << key;
  }
  EXPECT_LE(top.kept(), 2 * capacity);
  EXPECT_EQ(top.Top(1)[0].key, 1);
}

INSTANTIATE_TEST_SUITE_P(Merges, TopValuesParts, testing::Values(1, 2, 17, 300));

TEST(ValueSampleTest, HoldsAllWhileTheyFit) {
  ValueSample sample(4);
  for (int i = 4; i > 0; --i) sample.Add(RandomBits(1, i), i);
  EXPECT_THAT(sample.Sorted(), ElementsAre(1, 2, 3, 4));
}

TEST(ValueSampleTest, PartsInAnyOrderGiveTheSampleOfTheWholeAndItIsFair) {
  const int n = 50000;
  ValueSample whole(1000), parts[5] = {ValueSample(1000), ValueSample(1000), ValueSample(1000),
                                       ValueSample(1000), ValueSample(1000)};
  for (int i = 0; i < n; ++i) {
    whole.Add(RandomBits(9, i), i);
    parts[i % 5].Add(RandomBits(9, i), i);
  }
  ValueSample back(1000);
  for (int i = 4; i >= 0; --i) back.Merge(parts[i]);
  EXPECT_EQ(back.Sorted(), whole.Sorted());
  EXPECT_THAT(whole.Sorted(), SizeIs(1000));
  // The deviation of a sampled median is n / (2 sqrt(1000)): six of them.
  EXPECT_NEAR(whole.Sorted()[500], n / 2, 6 * n / (2 * std::sqrt(1000.0)));
}

}  // namespace
}  // namespace starling
