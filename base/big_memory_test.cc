#include "base/big_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace starling {
namespace {

TEST(BigMemory, BeginsOnABorderAndHoldsAllThatWasAskedFor) {
  constexpr size_t kMiB = 1 << 20;
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{100}, 4 * kMiB - 4, 4 * kMiB, 5 * kMiB + 12}) {
    std::unique_ptr<char, FreeBig> memory(static_cast<char*>(AllocateBig(bytes)));
    const auto at = reinterpret_cast<uintptr_t>(memory.get());
    EXPECT_EQ(at % (bytes >= 4 * kMiB ? 2 * kMiB : 64), 0u) << bytes;
    std::fill_n(memory.get(), bytes, 'x');
    EXPECT_TRUE(bytes == 0 || memory.get()[bytes - 1] == 'x');
  }
}

TEST(BigMemory, FloatsStayWhereTheyAreUntilMoreAreNeeded) {
  BigFloats floats;
  float* const first = floats.Reserve(2'000'000);
  std::fill_n(first, 2'000'000, 1.0f);
  EXPECT_EQ(floats.Reserve(10), first);
  EXPECT_EQ(floats.Reserve(2'100'000), first);  // A little more was taken at once.
  float* const more = floats.Reserve(4'000'000);
  std::fill_n(more, 4'000'000, 2.0f);
  EXPECT_EQ(more[3'999'999], 2.0f);
}

}  // namespace
}  // namespace starling
