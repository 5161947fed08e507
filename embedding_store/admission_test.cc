#include "embedding_store/admission.h"

#include <gtest/gtest.h>

#include "embedding_store/table_test_util.h"

namespace starling {
namespace {

AdmitOptions Count(int n) {
  AdmitOptions options;
  options.set_count(n);
  return options;
}
AdmitOptions Probability(double p) {
  AdmitOptions options;
  options.set_probability(p);
  return options;
}

TEST(AdmissionTest, CountAdmitsAtTheNthSight) {
  AdmissionFilter filter(Count(3), 7, 1 << 20);
  EXPECT_FALSE(filter.Admit(1, 1));
  EXPECT_FALSE(filter.Admit(1, 1));
  EXPECT_TRUE(filter.Admit(1, 1));
  EXPECT_TRUE(filter.Admit(1, 1));
  EXPECT_TRUE(filter.Admit(2, 5));  // Five impressions at once.
}

TEST(AdmissionTest, AlwaysNeedsNoMemory) {
  AdmissionFilter filter(AdmitOptions(), 7, 1 << 20);
  EXPECT_EQ(filter.bytes(), 0);
  EXPECT_TRUE(filter.Admit(1, 1));
}

TEST(AdmissionTest, ProbabilityAdmitsThatShareAtEachSight) {
  AdmissionFilter filter(Probability(0.2), 7, 8 << 20);
  std::vector<uint64_t> ids = MakeIds(0, 20'000);
  int left = static_cast<int>(ids.size());
  std::vector<bool> admitted(ids.size());
  for (int sight = 0; sight < 4; ++sight) {
    int now = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (admitted[i] || !filter.Admit(ids[i], 1)) continue;
      admitted[i] = true;
      ++now;
    }
    EXPECT_NEAR(static_cast<double>(now) / left, 0.2, 0.02) << "sight " << sight;
    left -= now;
  }
}

TEST(AdmissionTest, ProbabilityDecidesAlikeInAReplay) {
  AdmissionFilter one(Probability(0.3), 7, 1 << 20), two(Probability(0.3), 7, 1 << 20);
  std::vector<uint64_t> ids = MakeIds(0, 500);
  std::vector<bool> first, second(ids.size());
  for (uint64_t id : ids) first.push_back(one.Admit(id, 1));
  for (size_t i = ids.size(); i-- > 0;) second[i] = two.Admit(ids[i], 1);
  EXPECT_EQ(first, second);
}

TEST(AdmissionTest, EndlessIdsCostNoMemory) {
  AdmissionFilter filter(Count(2), 7, 1 << 10);
  for (uint64_t id = 0; id < 100'000; ++id) filter.Admit(id, 1);
  EXPECT_EQ(filter.bytes(), 1 << 10);
}

TEST(AdmissionTest, StateSurvivesOtherSizesAndRepeatedSplitsAndJoins) {
  AdmissionFilter from(Count(3), 7, 1 << 16);
  std::vector<uint64_t> ids = MakeIds(0, 1000);
  for (uint64_t id : ids) from.Admit(id, 2);
  for (int64_t bytes : {1 << 14, 1 << 16, 1 << 18}) {
    AdmissionFilter to(Count(3), 7, bytes);
    for (int twice = 0; twice < 2; ++twice) {
      ASSERT_TRUE(to.Merge(from.Serialize()).ok());
    }
    int early = 0;
    for (uint64_t id : MakeIds(5000, 1000)) early += to.Admit(id, 1);
    EXPECT_LT(early, bytes == 1 << 14 ? 300 : 50);
    for (uint64_t id : ids) EXPECT_TRUE(to.Admit(id, 1));
  }
}

TEST(AdmissionTest, BadOptionsAndStatesAreRefused) {
  EXPECT_FALSE(AdmissionFilter::Check(Count(0)).ok());
  EXPECT_FALSE(AdmissionFilter::Check(Count(70'000)).ok());
  EXPECT_FALSE(AdmissionFilter::Check(Probability(0)).ok());
  EXPECT_FALSE(AdmissionFilter::Check(Probability(1.5)).ok());
  EXPECT_TRUE(AdmissionFilter::Check(Probability(1)).ok());
  AdmissionFilter filter(Count(3), 7, 1 << 10);
  EXPECT_FALSE(filter.Merge("abc").ok());
}

}  // namespace
}  // namespace starling
