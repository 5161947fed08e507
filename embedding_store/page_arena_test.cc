#include "embedding_store/page_arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <vector>

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

TEST(PageArenaTest, WholePagesAreThereBeforeTheyAreWrittenAndNoOthers) {
  constexpr int64_t kPage = 4 << 10;
  PageArena arena(2 << 20);
  PageRegion region = arena.Cut(1 << 20);
  auto resident = [&](int64_t pages) {
    std::vector<unsigned char> in_memory(pages);
    EXPECT_EQ(::mincore(region.data(), pages * kPage, in_memory.data()), 0);
    return std::count_if(in_memory.begin(), in_memory.end(), [](int page) { return page & 1; });
  };
  EXPECT_EQ(resident(64), 0);
  region.Populate(0, 10 * kPage + 100);
  EXPECT_EQ(resident(10), 10);
  EXPECT_EQ(resident(64), 10);
  region.data()[10 * kPage] = 7;
  region.Populate(10 * kPage + 100, 20 * kPage);
  EXPECT_EQ(resident(64), 20);
  EXPECT_EQ(region.data()[10 * kPage], 7);
  EXPECT_EQ(std::count(region.data(), region.data() + 20 * kPage, 0), 20 * kPage - 1);
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
