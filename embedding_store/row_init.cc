#include "embedding_store/row_init.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/optimizer.h"
#include "base/random.h"

// Vectors are passed to functions that are inlined, without a convention.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace starling {
namespace {

constexpr int kLanes = 4;
typedef double Doubles __attribute__((vector_size(8 * kLanes)));
typedef uint64_t Ints __attribute__((vector_size(8 * kLanes)));

// c[0] + c[1] x + c[2] x² …
template <size_t n>
[[gnu::always_inline]] inline Doubles Series(const double (&c)[n], Doubles x) {
  Doubles sum = x * 0 + c[n - 1];
  for (size_t i = n - 1; i-- > 0;) sum = sum * x + c[i];
  return sum;
}

// Of numbers in (0, 1] that are not denormal.
[[gnu::always_inline]] inline Doubles Log(Doubles x) {
  // x = m 2^e, with m between the roots of 1/2 and 2.
  constexpr uint64_t kHalfRootBits = 0x3FE6A09E667F3BCD, kMantissa = (uint64_t{1} << 52) - 1;
  constexpr uint64_t kBias = 1024;  // So that the shift needs no sign.
  const Ints shifted = (Ints)x - kHalfRootBits + (kBias << 52);
  const Doubles m = (Doubles)((shifted & kMantissa) + kHalfRootBits);
  // A small integer as the last bits of 2^52.
  const Doubles e = (Doubles)(shifted >> 52 | 0x4330000000000000) - (0x1p52 + kBias);
  // log m = 2 artanh((m - 1) / (m + 1))
  constexpr double kArtanh[] = {1,        1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,
                                1.0 / 11, 1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19};
  const Doubles s = (m - 1) / (m + 1);
  return e * 0.6931471805599453 + 2 * s * Series(kArtanh, s * s);
}

// cos(2 pi v) of v in [0, 1).
[[gnu::always_inline]] inline Doubles CosOfTurns(Doubles v) {
  constexpr double kShift = 0x1.8p52;
  const Doubles rounded = 4 * v + kShift;
  const Ints quarter = (Ints)rounded;  // Its last bits.
  const Doubles x = 6.283185307179586 * (v - 0.25 * (rounded - kShift));
  constexpr double kCos[] = {1,
                             -1.0 / 2,
                             1.0 / 24,
                             -1.0 / 720,
                             1.0 / 40320,
                             -1.0 / 3628800,
                             1.0 / 479001600,
                             -1.0 / 87178291200,
                             1.0 / 20922789888000};
  constexpr double kSin[] = {1,
                             -1.0 / 6,
                             1.0 / 120,
                             -1.0 / 5040,
                             1.0 / 362880,
                             -1.0 / 39916800,
                             1.0 / 6227020800,
                             -1.0 / 1307674368000};
  const Doubles z = x * x, cos = Series(kCos, z), sin = x * Series(kSin, z);
  // By quarters: cos, -sin, -cos, sin.
  const Doubles value = (quarter & 1) == 0 ? cos : sin;
  return ((quarter + 1) & 2) == 0 ? value : -value;
}

[[gnu::always_inline]] inline void Fill(uint64_t key, uint64_t first, float deviation,
                                        std::span<float> floats) {
  for (size_t done = 0; done < floats.size(); done += kLanes) {
    double uniform[2][kLanes];
    for (int i = 0; i < kLanes; ++i) {
      uniform[0][i] = RandomUniform(key, 2 * (first + done + i));
      uniform[1][i] = RandomUniform(key, 2 * (first + done + i) + 1);
    }
    Doubles u, v;
    std::memcpy(&u, uniform[0], sizeof(u));
    std::memcpy(&v, uniform[1], sizeof(v));
    Doubles root = -2 * Log(1 - u);
    for (int i = 0; i < kLanes; ++i) root[i] = std::sqrt(root[i]);
    const Doubles normal = deviation * (root * CosOfTurns(v));
    const size_t n = std::min<size_t>(kLanes, floats.size() - done);
    for (size_t i = 0; i < n; ++i) floats[done + i] = static_cast<float>(normal[i]);
  }
}

// The same bits with other registers: avx2 alone does not join products and sums.
[[gnu::target("avx2")]] void FillAvx2(uint64_t key, uint64_t first, float deviation,
                                      std::span<float> floats) {
  Fill(key, first, deviation, floats);
}

}  // namespace

void FillNormal(uint64_t key, uint64_t first, float deviation, std::span<float> floats) {
  static const bool avx2 = BestInstructionSet() == InstructionSet::kAvx2;
  if (avx2) return FillAvx2(key, first, deviation, floats);
  Fill(key, first, deviation, floats);
}

}  // namespace starling
