#include "ps/applied_names.h"

#include <atomic>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace starling {
namespace {

BatchName Name(uint32_t batch, uint32_t split = 0, uint32_t pass = 0, uint64_t job = 9) {
  return {job, pass, split, batch};
}

void Apply(AppliedNames& names, const BatchName& name) {
  auto is_new = names.Begin(name);
  ASSERT_TRUE(is_new.ok()) << is_new.status();
  ASSERT_TRUE(*is_new);
  names.Finish(name, true);
}

TEST(AppliedNamesTest, NameIsNewOnce) {
  AppliedNames names;
  Apply(names, Name(3));
  EXPECT_FALSE(*names.Begin(Name(3)));
  EXPECT_TRUE(names.Contains(Name(3)));
  for (const BatchName& other : {Name(2), Name(4), Name(3, 1), Name(3, 0, 1), Name(3, 0, 0, 8)}) {
    EXPECT_FALSE(names.Contains(other));
  }
}

TEST(AppliedNamesTest, FailedNameStaysNew) {
  AppliedNames names;
  ASSERT_TRUE(*names.Begin(Name(0)));
  names.Finish(Name(0), false);
  EXPECT_FALSE(names.Contains(Name(0)));
  EXPECT_TRUE(*names.Begin(Name(0)));
}

// Out of order and from any first ordinal, a split that is done takes as few
// bytes as one interval.
TEST(AppliedNamesTest, FinishedRunIsOneInterval) {
  AppliedNames in_order, shuffled;
  for (uint32_t i = 0; i < 1000; ++i) {
    Apply(in_order, Name(500 + i));
    Apply(shuffled, Name(500 + i * 7 % 1000));
  }
  EXPECT_EQ(in_order.size(), 1000);
  EXPECT_EQ(in_order.Encode(), shuffled.Encode());
  AppliedNames one;
  Apply(one, Name(0));
  EXPECT_EQ(in_order.Encode().size(), one.Encode().size());
}

TEST(AppliedNamesTest, LargestOrdinalIsKept) {
  AppliedNames names, read;
  Apply(names, Name(UINT32_MAX));
  ASSERT_TRUE(read.Merge(names.Encode(), "f").ok());
  EXPECT_TRUE(read.Contains(Name(UINT32_MAX)));
  EXPECT_EQ(read.size(), 1);
}

TEST(AppliedNamesTest, MergeIsUnion) {
  AppliedNames a, b, both;
  for (uint32_t i : {0, 1, 2, 7}) Apply(a, Name(i));
  for (uint32_t i : {2, 3, 9}) Apply(b, Name(i));
  Apply(b, Name(0, 5));
  ASSERT_TRUE(both.Merge(a.Encode(), "a").ok());
  ASSERT_TRUE(both.Merge(b.Encode(), "b").ok());
  EXPECT_EQ(both.size(), 7);
  for (uint32_t i : {0, 1, 2, 3, 7, 9}) EXPECT_TRUE(both.Contains(Name(i)));
  EXPECT_TRUE(both.Contains(Name(0, 5)));
  EXPECT_FALSE(both.Contains(Name(4)));
}

TEST(AppliedNamesTest, DamageIsDataLossAndAddsNothing) {
  AppliedNames names, read;
  for (uint32_t i : {0, 5, 9}) Apply(names, Name(i));
  const std::string good = names.Encode();
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] ^= 0x10;
    EXPECT_EQ(read.Merge(bad, "f").code(), absl::StatusCode::kDataLoss) << "byte " << i;
    EXPECT_EQ(read.Merge(good.substr(0, i), "f").code(), absl::StatusCode::kDataLoss) << i;
  }
  EXPECT_EQ(read.size(), 0);
}

TEST(AppliedNamesTest, TooManyGapsIsRefusedButFillingThemIsNot) {
  AppliedNames names(4, 10);
  for (uint32_t i : {0, 2, 4, 6}) Apply(names, Name(i));
  EXPECT_EQ(names.Begin(Name(9)).status().code(), absl::StatusCode::kResourceExhausted);
  Apply(names, Name(1));
  Apply(names, Name(9));
}

TEST(AppliedNamesTest, FullWindowForgetsTheOldestPassAndRefusesItsNames) {
  AppliedNames names(4, 10);
  Apply(names, Name(0, 0, 0));
  for (int i = 1; i < 10; ++i) Apply(names, Name(0, i, 1));
  Apply(names, Name(0, 0, 2));
  EXPECT_EQ(names.Begin(Name(1, 0, 0)).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(*names.Begin(Name(0, 1, 1)));
  EXPECT_EQ(names.size(), 10);
  AppliedNames read;
  ASSERT_TRUE(read.Merge(names.Encode(), "f").ok());
  EXPECT_EQ(read.Begin(Name(1, 0, 0)).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(AppliedNamesTest, ConcurrentCopiesOfANameGiveOneNew) {
  AppliedNames names;
  constexpr int kThreads = 4, kNames = 500;
  std::vector<int> work(kNames);  // Not atomic: Begin must exclude the copies.
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (uint32_t i = 0; i < kNames; ++i) {
        if (!*names.Begin(Name(i))) {
          EXPECT_EQ(work[i], 1);  // Only after the first is done.
          continue;
        }
        ++work[i];
        names.Finish(Name(i), true);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(work, std::vector<int>(kNames, 1));
  EXPECT_EQ(names.size(), kNames);
}

}  // namespace
}  // namespace starling
