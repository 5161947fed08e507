#include "embedding_store/admission.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "embedding_store/table_test_util.h"

namespace starling {
namespace {

AdmitOptions Count(int n) {
  AdmitOptions options;
  options.set_count(n);
  return options;
}
AdmitOptions ExactCount(int n) {
  AdmitOptions options;
  options.set_exact_count(n);
  return options;
}
AdmitOptions Probability(double p) {
  AdmitOptions options;
  options.set_probability(p);
  return options;
}

std::string StateOf(const AdmissionFilter& filter) {
  std::string state;
  filter.AppendTo(&state);
  return state;
}
bool OwnsAll(uint64_t) { return true; }

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
      ASSERT_TRUE(to.Merge(StateOf(from), OwnsAll).ok());
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
  EXPECT_FALSE(AdmissionFilter::Check(ExactCount(0)).ok());
  EXPECT_FALSE(AdmissionFilter::Check(ExactCount(70'000)).ok());
  EXPECT_TRUE(AdmissionFilter::Check(ExactCount(65'535)).ok());
  EXPECT_FALSE(AdmissionFilter::Check(Probability(0)).ok());
  EXPECT_FALSE(AdmissionFilter::Check(Probability(1.5)).ok());
  EXPECT_TRUE(AdmissionFilter::Check(Probability(1)).ok());
  AdmissionFilter filter(Count(3), 7, 1 << 10);
  const std::string bloom = StateOf(filter);
  EXPECT_FALSE(filter.Merge("abc", OwnsAll).ok());
  EXPECT_FALSE(filter.Merge(bloom.substr(0, bloom.size() - 2), OwnsAll).ok());
  EXPECT_FALSE(filter.Merge("\2elevenbytes", OwnsAll).ok());
}

// ---- exact_count ----

// Many ids in random order, in little more memory than they need: a Bloom
// filter of that size would let some in early.
TEST(AdmissionTest, ExactCountAdmitsEveryIdAtItsNthSight) {
  AdmissionFilter filter(ExactCount(5), 7, 64 << 10);
  std::vector<uint64_t> ids = MakeIds(0, 1500);
  std::vector<int> seen(ids.size());
  for (uint64_t draw = 0; draw < 20'000; ++draw) {
    const uint64_t i = RandomBelow(3, draw, ids.size());
    ASSERT_EQ(filter.Admit(ids[i], 1), ++seen[i] >= 5) << "id " << i << " sight " << seen[i];
  }
  EXPECT_TRUE(filter.Admit(1, 5));
  EXPECT_FALSE(filter.Admit(2, 4));
  EXPECT_TRUE(filter.Admit(2, 0xFFFFFFFF));
}

TEST(AdmissionTest, ExactCountStartsAgainWhenTheRowWent) {
  AdmissionFilter filter(ExactCount(2), 7, 1 << 10);
  EXPECT_FALSE(filter.Admit(1, 1));
  EXPECT_TRUE(filter.Admit(1, 1));
  EXPECT_TRUE(filter.Admit(1, 1));  // The row could not be made: it is tried again.
  filter.HasRow(1);
  EXPECT_FALSE(filter.Admit(1, 1));
}

TEST(AdmissionTest, ExactCountersNeverTakeMoreMemoryNorAdmitEarly) {
  for (int64_t bytes : {100, 1 << 10, 10'000, 1 << 16}) {
    AdmissionFilter filter(ExactCount(4), 7, bytes);
    const int64_t taken = filter.bytes();
    EXPECT_LE(taken, std::max<int64_t>(bytes, 1024));
    EXPECT_GT(taken, std::max<int64_t>(bytes, 1024) / 4);
    int admitted = 0;
    for (uint64_t id = 0; id < 100'000; ++id) {
      ASSERT_FALSE(filter.Admit(id, 3));
      // A frequent id gets in though the counters are halved all the time.
      if (id % 4 == 0 && filter.Admit(~uint64_t{0}, 1)) {
        ++admitted;
        filter.HasRow(~uint64_t{0});
      }
      if (id % 8 == 0) filter.HasRow(id - 8);  // Holes in the map, as rows are made.
    }
    EXPECT_EQ(filter.bytes(), taken);
    EXPECT_GT(admitted, 1000) << bytes;
  }
}

// One state goes to two filters by the owner of each id, and theirs join into one.
TEST(AdmissionTest, ExactCountersSplitAndJoinExactly) {
  AdmissionFilter all(ExactCount(9), 7, 1 << 16), odd(ExactCount(9), 7, 1 << 16),
      even(ExactCount(9), 7, 1 << 16), joined(ExactCount(9), 7, 1 << 17);
  for (uint64_t id = 0; id < 1000; ++id) all.Admit(id, 1 + id % 7);
  for (int twice = 0; twice < 2; ++twice) {
    ASSERT_TRUE(odd.Merge(StateOf(all), [](uint64_t id) { return id % 2 == 1; }).ok());
    ASSERT_TRUE(even.Merge(StateOf(all), [](uint64_t id) { return id % 2 == 0; }).ok());
    ASSERT_TRUE(joined.Merge(StateOf(odd), OwnsAll).ok());
    ASSERT_TRUE(joined.Merge(StateOf(even), OwnsAll).ok());
  }
  EXPECT_EQ(StateOf(joined), StateOf(all));
  EXPECT_EQ(StateOf(odd).size() + StateOf(even).size(), StateOf(all).size() + 1);
}

TEST(AdmissionTest, StateOfAnotherKindOfCountingIsPassedOver) {
  AdmissionFilter exact(ExactCount(2), 7, 1 << 10), bloom(Count(2), 7, 1 << 10);
  exact.Admit(1, 1);
  bloom.Admit(1, 1);
  AdmissionFilter exact2(ExactCount(2), 7, 1 << 10), bloom2(Count(2), 7, 1 << 10);
  ASSERT_TRUE(exact2.Merge(StateOf(bloom), OwnsAll).ok());
  ASSERT_TRUE(bloom2.Merge(StateOf(exact), OwnsAll).ok());
  EXPECT_FALSE(exact2.Admit(1, 1));
  EXPECT_FALSE(bloom2.Admit(1, 1));
}

}  // namespace
}  // namespace starling
