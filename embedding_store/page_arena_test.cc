#include "embedding_store/page_arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string>
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
  region.ExpectWrites(5 * kMiB, /*populated=*/0);  // Two and a half.
  for (int64_t i = 0; i < 6 * kMiB; ++i) region.data()[i] = static_cast<char>(i % 251);
  EXPECT_FALSE(region.MakeHuge(5 * kMiB));
  EXPECT_TRUE(region.MakeHuge(6 * kMiB));
  region.ExpectWrites(100 * kMiB, 6 * kMiB);  // No more than there is.
  EXPECT_FALSE(region.MakeHuge(8 * kMiB));
  int64_t wrong = 0;
  for (int64_t i = 0; i < 6 * kMiB; ++i) wrong += region.data()[i] != static_cast<char>(i % 251);
  EXPECT_EQ(wrong, 0);
}

// Bytes on huge pages of the mappings that begin in [begin, end).
int64_t HugeBytes(const char* begin, const char* end) {
  std::ifstream smaps("/proc/self/smaps");
  int64_t bytes = 0;
  bool within = false;
  for (std::string line; std::getline(smaps, line);) {
    uint64_t from = 0, to = 0;
    int64_t kib = 0;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " ", &from, &to) == 2) {
      within = from >= reinterpret_cast<uint64_t>(begin) && from < reinterpret_cast<uint64_t>(end);
    } else if (within && std::sscanf(line.c_str(), "AnonHugePages: %" SCNd64, &kib) == 1) {
      bytes += kib << 10;
    }
  }
  return bytes;
}

TEST(PageArenaTest, ExpectedPagesAreHugeWhereSomeOfThemIsThereAlready) {
  constexpr int64_t kMiB = 1 << 20;
  PageArena arena(16 * kMiB);
  PageRegion region = arena.Cut(8 * kMiB), other = arena.Cut(8 * kMiB);
  other.ExpectWrites(2 * kMiB, 0);
  other.data()[0] = 1;
  if (HugeBytes(other.data(), other.data() + 8 * kMiB) == 0) GTEST_SKIP() << "no huge pages here";
  region.Populate(0, 100 << 10);
  region.data()[5] = 5;
  region.ExpectWrites(4 * kMiB - 1000, 100 << 10);  // What lacks so little counts as two pages.
  region.Populate(100 << 10, 3 * kMiB);
  EXPECT_EQ(HugeBytes(region.data(), region.data() + 8 * kMiB), 4 * kMiB);
  EXPECT_EQ(region.data()[5], 5);
  EXPECT_EQ(std::count(region.data(), region.data() + 4 * kMiB, 0), 4 * kMiB - 1);
}

}  // namespace
}  // namespace starling
