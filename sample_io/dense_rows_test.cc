#include "sample_io/dense_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "sample_io/feature_test_util.h"

namespace starling {
namespace {

RawPlan LogPlan() {
  RawFeature raw;
  raw.set_norm(RawFeature::LOG1P);
  return {.scale = RawScale(raw), .missing = -1};
}

uint32_t Bits(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}

// Counts, large and small, of both signs, and what is no count.
std::vector<double> Numbers(size_t n) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double odd[] = {0.0,  -0.0,      2046, 2047, 2048, -2047, -3,
                        1e30, kInfinity, 0.5,  -2.5, 1e39, 4e9,   std::nan("")};
  std::vector<double> numbers;
  for (size_t i = 0; i < n; ++i) {
    numbers.push_back(i % 5 == 0 ? odd[i / 5 % std::size(odd)] : static_cast<double>(i % 700));
  }
  return numbers;
}

TEST(DenseRowsTest, LogarithmsOfManyAreBitForBitThoseOfEach) {
  const RawPlan plan = LogPlan();
  for (size_t n : {1, 3, 4, 255, 256, 257, 1000}) {
    for (bool nulls : {false, true}) {
      std::vector<uint8_t> valid(n + 2, 1);
      for (size_t i = 0; nulls && i < valid.size(); i += 3) valid[i] = 0;
      const Column column = Doubles("f", Numbers(n + 2), nulls ? valid : std::vector<uint8_t>());
      std::vector<int64_t> entries(n);
      std::iota(entries.begin(), entries.end(), 2);  // Rows that begin anywhere.
      std::vector<float> dense(2 * n, 7);
      std::vector<uint8_t> good(n, 1);
      FillNumbers(column, entries, plan, 2, dense.data(), good.data());
      for (size_t i = 0; i < n; ++i) {
        const float each = plan.scale(column.doubles[i + 2]);
        const bool null = column.IsNull(static_cast<int64_t>(i) + 2);
        EXPECT_EQ(good[i], null || std::isfinite(each)) << column.doubles[i + 2];
        EXPECT_EQ(dense[2 * i + 1], 7);
        if (!good[i]) continue;
        EXPECT_EQ(Bits(dense[2 * i]), Bits(null ? -1 : each)) << column.doubles[i + 2];
      }
    }
  }
}

}  // namespace
}  // namespace starling
