#include "embedding_store/page_arena.h"

#include <gtest/gtest.h>

namespace starling {
namespace {

TEST(PageArenaTest, OnlyFullPagesBecomeHugeOneAtATimeAndKeepTheirBytes) {
  constexpr int64_t kMiB = 1 << 20;
  PageArena arena(8 * kMiB);
  PageRegion region = arena.Cut(6 * kMiB);
  for (int64_t i = 0; i < 5 * kMiB; ++i) region.data()[i] = static_cast<char>(i % 251);
  EXPECT_FALSE(region.MakeHuge(2 * kMiB - 1));
  EXPECT_TRUE(region.MakeHuge(5 * kMiB));
  EXPECT_TRUE(region.MakeHuge(5 * kMiB));
  EXPECT_FALSE(region.MakeHuge(5 * kMiB));  // The third is half full.
  int64_t wrong = 0;
  for (int64_t i = 0; i < 5 * kMiB; ++i) wrong += region.data()[i] != static_cast<char>(i % 251);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(region.data()[5 * kMiB], 0);
}

TEST(PageArenaTest, PagesOfWhichAllIsExpectedNeedNotBecomeHugeLater) {
  constexpr int64_t kMiB = 1 << 20;
  PageArena arena(8 * kMiB);
  PageRegion region = arena.Cut(8 * kMiB);
  region.ExpectWrites(5 * kMiB);  // Two and a half.
  for (int64_t i = 0; i < 6 * kMiB; ++i) region.data()[i] = static_cast<char>(i % 251);
  EXPECT_FALSE(region.MakeHuge(5 * kMiB));
  EXPECT_TRUE(region.MakeHuge(6 * kMiB));
  region.ExpectWrites(100 * kMiB);  // No more than there is.
  EXPECT_FALSE(region.MakeHuge(8 * kMiB));
  int64_t wrong = 0;
  for (int64_t i = 0; i < 6 * kMiB; ++i) wrong += region.data()[i] != static_cast<char>(i % 251);
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace starling
