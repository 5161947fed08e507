#include "base/narrow_float.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/narrow_float_kernel.h"
#include "base/random.h"

namespace starling {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();

using Bytes = std::vector<char>;

Bytes Encoded(FloatType type, std::span<const float> in, uint64_t key) {
  Bytes bytes(EncodedBytes(type, static_cast<int>(in.size())), '\x55');
  Encode(type, in, key, bytes.data());
  return bytes;
}
Bytes Nearest(FloatType type, std::span<const float> in) {
  Bytes bytes(EncodedBytes(type, static_cast<int>(in.size())), '\x55');
  EncodeNearest(type, in, bytes.data());
  return bytes;
}
std::vector<float> Decoded(FloatType type, const Bytes& bytes, size_t n) {
  std::vector<float> out(n);
  Decode(type, bytes.data(), out);
  return out;
}
std::vector<uint32_t> BitsOf(const std::vector<float>& x) {
  std::vector<uint32_t> bits;
  for (float v : x) bits.push_back(std::bit_cast<uint32_t>(v));
  return bits;
}

// The value of a half, or the upper half of a float, from the definition.
float HalfByDefinition(uint32_t h) {
  const int exponent = (h >> 10) & 31, fraction = h & 1023;
  double v = exponent == 0    ? std::ldexp(fraction, -24)
             : exponent == 31 ? (fraction == 0 ? kInf : kNan)
                              : std::ldexp(1024 + fraction, exponent - 25);
  return static_cast<float>((h & 0x8000) != 0 ? -v : v);
}
float Bf16ByDefinition(uint32_t h) { return std::bit_cast<float>(h << 16); }
float ByDefinition(FloatType type, uint32_t h) {
  return type == FloatType::kFp16 ? HalfByDefinition(h) : Bf16ByDefinition(h);
}

// All finite values >= 0, in order, so that the bits of one are its position.
std::vector<float> FiniteValues(FloatType type) {
  const uint32_t end = type == FloatType::kFp16 ? 0x7C00 : 0x7F80;
  std::vector<float> values;
  for (uint32_t h = 0; h < end; ++h) values.push_back(ByDefinition(type, h));
  return values;
}

// Values of every size the type knows and a little beyond, both signs.
float RandomValue(FloatType type, uint64_t key, uint64_t i) {
  const double range = type == FloatType::kBf16 ? 250 : 44;
  const double exponent = range * (RandomUniform(key, 2 * i) - 0.62);
  const double sign = (RandomBits(key, 2 * i + 1) & 1) != 0 ? -1 : 1;
  return static_cast<float>(sign * std::exp2(exponent));
}

std::vector<float> RandomRow(uint64_t key, int n) {
  const double size = std::exp2(80 * (RandomUniform(key, 1000) - 0.5));
  std::vector<float> row;
  for (int i = 0; i < n; ++i) row.push_back(static_cast<float>(size * RandomNormal(key, i)));
  return row;
}

std::string Name(const testing::TestParamInfo<FloatType>& info) {
  const char* names[] = {"fp32", "fp16", "bf16", "int8"};
  return names[static_cast<int>(info.param)];
}

class HalfTest : public testing::TestWithParam<FloatType> {};
INSTANTIATE_TEST_SUITE_P(All, HalfTest, testing::Values(FloatType::kFp16, FloatType::kBf16), Name);

TEST_P(HalfTest, EveryRepresentableValueIsKeptExactly) {
  std::vector<float> values;
  for (uint32_t h = 0; h < 0x10000; ++h) {
    const float v = ByDefinition(GetParam(), h);
    if (!std::isnan(v)) values.push_back(v);
  }
  const auto bits = BitsOf(values);  // -0 and 0 differ.
  for (uint64_t key : {0, 1, 77}) {
    EXPECT_EQ(bits, BitsOf(Decoded(GetParam(), Encoded(GetParam(), values, key), values.size())));
  }
  EXPECT_EQ(bits, BitsOf(Decoded(GetParam(), Nearest(GetParam(), values), values.size())));
}

TEST_P(HalfTest, NanAndInfinityStayAndFiniteValuesSaturate) {
  const float top = FiniteValues(GetParam()).back();
  const float signalling = std::bit_cast<float>(0x7F800001u);
  const std::vector<float> in = {kInf, -kInf, kMax,      -kMax, top, std::nextafter(top, kInf),
                                 kNan, -kNan, signalling};
  for (const Bytes& bytes : {Encoded(GetParam(), in, 5), Nearest(GetParam(), in)}) {
    const std::vector<float> out = Decoded(GetParam(), bytes, in.size());
    EXPECT_EQ(std::vector<float>(out.begin(), out.begin() + 6),
              (std::vector<float>{kInf, -kInf, top, -top, top, top}));
    for (int i = 6; i < 9; ++i) EXPECT_TRUE(std::isnan(out[i])) << i;
  }
}

TEST_P(HalfTest, RoundsToANeighbourAndNearestToTheNearer) {
  const std::vector<float> values = FiniteValues(GetParam());
  for (int i = 0; i < 20'000; ++i) {
    const float x = RandomValue(GetParam(), 3, i), size = std::min(std::abs(x), values.back());
    const auto above = std::lower_bound(values.begin(), values.end(), size);
    const float up = *above, down = size == up ? up : *(above - 1);
    const float chance = Decoded(GetParam(), Encoded(GetParam(), {&x, 1}, i), 1)[0];
    EXPECT_TRUE(std::abs(chance) == up || std::abs(chance) == down) << x << " gave " << chance;
    EXPECT_EQ(std::signbit(chance), std::signbit(x));
    const float near = Decoded(GetParam(), Nearest(GetParam(), {&x, 1}), 1)[0];
    const double to_up = double{up} - size, to_down = double{size} - down;
    if (to_up == to_down) continue;  // The next test's.
    EXPECT_EQ(std::abs(near), to_up < to_down ? up : down) << x;
  }
}

TEST_P(HalfTest, NearestTakesTheEvenNeighbourOfATie) {
  const std::vector<float> values = FiniteValues(GetParam());
  std::vector<float> ties;
  for (size_t h = 0; h + 1 < values.size(); h += 7) {
    ties.push_back(static_cast<float>((double{values[h]} + values[h + 1]) / 2));
  }
  const std::vector<float> out = Decoded(GetParam(), Nearest(GetParam(), ties), ties.size());
  for (size_t i = 0; i < ties.size(); ++i) {
    const size_t h = 7 * i;
    EXPECT_EQ(out[i], values[h + (h & 1)]) << h;
  }
}

class NarrowFloatTest : public testing::TestWithParam<FloatType> {};
INSTANTIATE_TEST_SUITE_P(All, NarrowFloatTest,
                         testing::Values(FloatType::kFp32, FloatType::kFp16, FloatType::kBf16,
                                         FloatType::kInt8),
                         Name);

TEST_P(NarrowFloatTest, TheMeanOfManyEncodesIsTheValue) {
  constexpr int kDraws = 20'000, kWidth = 12;
  for (double size : {1.0, 3001.3, 0x1.0p-18}) {  // The last: denormals of fp16.
    std::vector<float> row = {static_cast<float>(0.9 * size)};
    for (int i = 1; i < kWidth; ++i) {
      row.push_back(static_cast<float>(size * 0.4 * std::sin(i) * std::exp2(-0.5 * i)));
    }
    std::vector<double> sum(kWidth), square(kWidth);
    for (int k = 0; k < kDraws; ++k) {
      const auto out = Decoded(GetParam(), Encoded(GetParam(), row, k), kWidth);
      for (int i = 0; i < kWidth; ++i) {
        const double error = double{out[i]} - row[i];
        sum[i] += error;
        square[i] += error * error;
      }
    }
    for (int i = 0; i < kWidth; ++i) {
      EXPECT_LE(std::abs(sum[i]), 4 * std::sqrt(square[i])) << "value " << row[i] << " at " << i;
      EXPECT_EQ(square[i] > 0, GetParam() != FloatType::kFp32) << i;
    }
  }
}

TEST_P(NarrowFloatTest, BytesAreAFunctionOfValuesKeyAndPosition) {
  const std::vector<float> row(64, 0.1234567f);
  const Bytes bytes = Encoded(GetParam(), row, 9);
  EXPECT_EQ(bytes, Encoded(GetParam(), row, 9));
  if (GetParam() == FloatType::kFp32) return;
  std::vector<float> wider(65, 0.1234567f);
  wider[64] = 0.7f;  // In int8 the rest is then below the largest.
  const auto one = Decoded(GetParam(), Encoded(GetParam(), wider, 9), 64);
  const auto two = Decoded(GetParam(), Encoded(GetParam(), wider, 10), 64);
  EXPECT_NE(one, two);
  EXPECT_NE(one, std::vector<float>(64, one[0])) << "every position rounds on its own";
}

TEST_P(NarrowFloatTest, DecodedRowsEncodeToTheBytesTheyCameFrom) {
  for (int r = 0; r < 3'000; ++r) {
    const int n = 1 + r % 37;
    const Bytes bytes = Encoded(GetParam(), RandomRow(r, n), r);
    const std::vector<float> floats = Decoded(GetParam(), bytes, n);
    ASSERT_EQ(bytes, Nearest(GetParam(), floats)) << "row " << r;
    ASSERT_EQ(bytes, Encoded(GetParam(), floats, r + 1)) << "row " << r;
  }
}

TEST_P(NarrowFloatTest, BytesPastTheValuesAreZeroAndNothingBeyondIsTouched) {
  for (int n = 0; n < 20; ++n) {
    const std::vector<float> row(n, 127.0f);
    const int size = EncodedBytes(GetParam(), n);
    EXPECT_EQ(size % 4, 0);
    Bytes bytes(size + 8, '\x55');
    Encode(GetParam(), row, 1, bytes.data());
    EXPECT_EQ(std::string(bytes.begin() + size, bytes.end()), std::string(8, '\x55'));
    const int used = GetParam() == FloatType::kInt8   ? 4 + n
                     : GetParam() == FloatType::kFp32 ? 4 * n
                                                      : 2 * n;
    EXPECT_LT(size - used, 4);
    for (int i = used; i < size; ++i) EXPECT_EQ(bytes[i], 0);
    EXPECT_EQ(Decoded(GetParam(), bytes, n), row);
  }
}

TEST(NarrowFloatInt8Test, TheScaleFollowsTheLargestAndErrorsStayBelowAStep) {
  for (int r = 0; r < 3'000; ++r) {
    const std::vector<float> row = RandomRow(r, 16);
    float largest = 0;
    for (float x : row) largest = std::max(largest, std::abs(x));
    for (const Bytes& bytes : {Encoded(FloatType::kInt8, row, r), Nearest(FloatType::kInt8, row)}) {
      float scale;
      std::memcpy(&scale, bytes.data(), 4);
      EXPECT_LE(std::abs(127.0 * scale - largest), largest * 0x1.0p-15);
      const auto out = Decoded(FloatType::kInt8, bytes, 16);
      for (int i = 0; i < 16; ++i) {
        EXPECT_LT(std::abs(double{out[i]} - row[i]), scale);
        EXPECT_TRUE(std::abs(row[i]) < largest || std::abs(int{bytes[4 + i]}) == 127);
      }
    }
  }
}

TEST(NarrowFloatInt8Test, ExtremeRowsAreDefined) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  auto through = [](std::vector<float> row) {
    return Decoded(FloatType::kInt8, Encoded(FloatType::kInt8, row, 1), row.size());
  };
  EXPECT_EQ(through({0, -0.0f}), (std::vector<float>{0, 0}));
  EXPECT_EQ(Nearest(FloatType::kInt8, std::vector<float>{0, -0.0f}), Bytes(8, '\0'));
  for (int key = 0; key < 2'000; ++key) {  // Whichever way the scale is rounded.
    auto keyed = [key](std::vector<float> row) {
      const Bytes bytes = Encoded(FloatType::kInt8, row, key);
      EXPECT_EQ(bytes, Nearest(FloatType::kInt8, Decoded(FloatType::kInt8, bytes, row.size())));
      return Decoded(FloatType::kInt8, bytes, row.size());
    };
    const std::vector<float> huge = keyed({kMax, -kMax, 0});
    EXPECT_TRUE(std::isfinite(huge[0]) && huge[0] > 0.9999 * kMax && huge[1] == -huge[0]);
    for (float x : keyed({tiny, 40 * tiny, -9 * tiny})) EXPECT_LE(std::abs(x), 127 * 256 * tiny);
    keyed({tiny, 3e-38f, -1e-40f});
  }
  for (float bad : {kNan, kInf, -kInf}) {
    for (float x : through({1, bad, 2})) EXPECT_TRUE(std::isnan(x)) << bad;
  }
}

// Values of all kinds, at every length up to a few vectors.
TEST(NarrowFloatKernelTest, BaseAndAvx2GiveEqualBits) {
  if (&NarrowKernel() != &avx2::kNarrow) GTEST_SKIP() << "no AVX2 and F16C here";
  auto halves = [](auto encode, const std::vector<float>& in, bool random, uint64_t seed) {
    std::vector<uint16_t> out(in.size());
    encode(static_cast<int>(in.size()), in.data(), random, seed, out.data());
    return out;
  };
  for (int r = 0; r < 4'000; ++r) {
    std::vector<float> in;
    for (int i = 0; i < r % 41; ++i) {
      const uint64_t bits = RandomBits(r, i);
      in.push_back(bits % 16 == 0 ? std::bit_cast<float>(static_cast<uint32_t>(bits >> 32))
                                  : RandomValue(FloatType::kFp16, r, i));
    }
    for (bool random : {false, true}) {
      const uint64_t seed = Mix64(r);
      ASSERT_EQ(halves(base::kNarrow.encode_fp16, in, random, seed),
                halves(avx2::kNarrow.encode_fp16, in, random, seed));
      ASSERT_EQ(halves(base::kNarrow.encode_bf16, in, random, seed),
                halves(avx2::kNarrow.encode_bf16, in, random, seed));
      std::vector<int8_t> q[2] = {std::vector<int8_t>(in.size()), std::vector<int8_t>(in.size())};
      float scale[2];
      const int n = static_cast<int>(in.size());
      base::kNarrow.encode_int8(n, in.data(), random, seed, &scale[0], q[0].data());
      avx2::kNarrow.encode_int8(n, in.data(), random, seed, &scale[1], q[1].data());
      ASSERT_EQ(std::bit_cast<uint32_t>(scale[0]), std::bit_cast<uint32_t>(scale[1]));
      ASSERT_EQ(q[0], q[1]);
    }
  }
}

TEST(NarrowFloatKernelTest, BaseAndAvx2DecodeEveryPatternAlike) {
  if (&NarrowKernel() != &avx2::kNarrow) GTEST_SKIP() << "no AVX2 and F16C here";
  std::vector<uint16_t> all(0x10000);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  std::vector<int8_t> bytes;
  for (int q = -128; q < 128; ++q) bytes.push_back(static_cast<int8_t>(q));
  auto run = [&](const NarrowKernels& kernel) {
    std::vector<float> out(2 * all.size() + bytes.size());
    kernel.decode_fp16(static_cast<int>(all.size()), all.data(), out.data());
    kernel.decode_bf16(static_cast<int>(all.size()), all.data(), out.data() + all.size());
    kernel.decode_int8(static_cast<int>(bytes.size()), 0.0123f, bytes.data(),
                       out.data() + 2 * all.size());
    return BitsOf(out);
  };
  EXPECT_EQ(run(base::kNarrow), run(avx2::kNarrow));
}

}  // namespace
}  // namespace starling
