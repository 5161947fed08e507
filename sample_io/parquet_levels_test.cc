// Levels as Parquet packs them, and as nobody should.
#include "sample_io/parquet_levels.h"

#include <gtest/gtest.h>
#include <parquet/exception.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "base/random.h"

namespace starling {
namespace {

using Bytes = std::vector<uint8_t>;

void AddNumber(uint32_t n, Bytes* out) {
  for (; n >= 0x80; n >>= 7) out->push_back(static_cast<uint8_t>(n | 0x80));
  out->push_back(static_cast<uint8_t>(n));
}

void AddRun(uint32_t count, uint8_t level, Bytes* out) {
  AddNumber(count << 1, out);
  out->push_back(level);
}

// The levels, of which there are whole eights, packed into `bits` bits each.
void AddPacked(const Bytes& levels, int bits, Bytes* out) {
  AddNumber(static_cast<uint32_t>(levels.size() / 8) << 1 | 1, out);
  const size_t begin = out->size();
  out->resize(begin + levels.size() * static_cast<size_t>(bits) / 8, 0);
  for (size_t i = 0; i < levels.size() * static_cast<size_t>(bits); ++i) {
    const int bit = levels[i / bits] >> (i % bits) & 1;
    (*out)[begin + i / 8] |= static_cast<uint8_t>(bit << i % 8);
  }
}

Bytes ReadAll(const Bytes& packed, int16_t max, size_t n, uint64_t seed) {
  LevelReader reader;
  reader.Start(packed, /*old=*/false, max, static_cast<int>(n));
  Bytes levels(n);
  for (size_t at = 0, draw = 0; at < n; ++draw) {
    const size_t some = std::min<size_t>(n - at, 1 + RandomBelow(seed, draw, 100));
    reader.Read(static_cast<int>(some), levels.data() + at);
    at += some;
  }
  return levels;
}

TEST(ParquetLevelsTest, ReadsRunsAndPackedLevelsOfAnyWidth) {
  for (int16_t max = 1; max < 256; ++max) {
    const int bits = std::bit_width(static_cast<uint16_t>(max));
    Bytes expected, packed;
    for (uint64_t run = 0; run < 20; ++run) {
      const uint64_t seed = max * 1000 + run;
      const size_t n = 8 * (1 + RandomBelow(seed, 0, 20));
      Bytes levels(n, static_cast<uint8_t>(RandomBelow(seed, 1, max + 1)));
      if (run % 3 == 0) {
        AddRun(static_cast<uint32_t>(n), levels[0], &packed);
      } else {
        for (size_t i = 0; i < n; ++i) {
          levels[i] = static_cast<uint8_t>(RandomBelow(seed, 2 + i, max + 1));
        }
        AddPacked(levels, bits, &packed);
      }
      expected.insert(expected.end(), levels.begin(), levels.end());
    }
    EXPECT_EQ(ReadAll(packed, max, expected.size(), max), expected) << "levels to " << max;
  }
}

TEST(ParquetLevelsTest, RefusesLevelsThatEndEarly) {
  Bytes packed;
  AddRun(5, 1, &packed);
  EXPECT_EQ(ReadAll(packed, 1, 5, 1), Bytes(5, 1));
  EXPECT_THROW(ReadAll(packed, 1, 6, 1), parquet::ParquetException);
  EXPECT_THROW(ReadAll({}, 1, 1, 1), parquet::ParquetException);
  EXPECT_THROW(ReadAll({0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1, 1}, 1, 1, 1),
               parquet::ParquetException);
  EXPECT_THROW(ReadAll({0, 1, 0, 1, 0}, 1, 1, 1), parquet::ParquetException) << "runs of nothing";
  EXPECT_THROW(ReadAll({9, 0xFF}, 3, 5, 1), parquet::ParquetException) << "packed, but cut";
}

TEST(ParquetLevelsTest, RefusesALevelAboveTheLargest) {
  Bytes run, packed;
  AddRun(5, 3, &run);
  AddPacked({0, 1, 2, 2, 3, 1, 0, 0}, 2, &packed);
  EXPECT_THROW(ReadAll(run, 2, 5, 1), parquet::ParquetException);
  EXPECT_THROW(ReadAll(packed, 2, 8, 1), parquet::ParquetException);
  EXPECT_EQ(ReadAll(packed, 3, 8, 1), (Bytes{0, 1, 2, 2, 3, 1, 0, 0}));
}

}  // namespace
}  // namespace starling
