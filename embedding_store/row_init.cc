#include "embedding_store/row_init.h"

#include <algorithm>

#include "base/optimizer.h"
#include "base/random.h"

namespace starling {
namespace {

template <int kLanes>
struct Vectors {
  typedef double Doubles __attribute__((vector_size(8 * kLanes)));
  typedef uint64_t Ints __attribute__((vector_size(8 * kLanes)));
};

// c[0] + c[1] x + c[2] x² …
template <size_t n, typename Doubles>
[[gnu::always_inline]] inline Doubles Series(const double (&c)[n], Doubles x) {
  Doubles sum = x * 0 + c[n - 1];
  for (size_t i = n - 1; i-- > 0;) sum = sum * x + c[i];
  return sum;
}

// Of numbers in (0, 1] that are not denormal.
template <typename Ints, typename Doubles>
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
template <typename Ints, typename Doubles>
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

// RandomUniform(key, counter), with Mix64(key) for the key.
template <typename Doubles, typename Ints>
[[gnu::always_inline]] inline Doubles Uniform(uint64_t mixed_key, Ints counter) {
  Ints x = (counter ^ mixed_key) + 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  x = (x ^ (x >> 31)) >> 11;
  // The halves of 53 bits, each as the last bits of a power of 2: their sum is exact.
  const Doubles low = (Doubles)((x & 0xFFFFFFFF) | 0x4330000000000000);  // 2^52 and it
  const Doubles high = (Doubles)((x >> 32) | 0x4530000000000000);        // 2^84 and it
  return ((high - (0x1p84 + 0x1p52)) + low) * 0x1p-53;
}

// By hand: the compiler looks at every number whether it has a root.
template <typename Doubles>
[[gnu::always_inline]] inline Doubles Root(Doubles x) {
  Doubles root;
  if constexpr (sizeof(Doubles) == 16) {
    asm("sqrtpd %1, %0" : "=x"(root) : "x"(x));
  } else {
    asm("vsqrtpd %1, %0" : "=v"(root) : "v"(x));
  }
  return root;
}

template <int kLanes>
[[gnu::always_inline]] inline void Fill(uint64_t key, uint64_t first, float deviation,
                                        std::span<float> floats) {
  using Doubles = Vectors<kLanes>::Doubles;
  using Ints = Vectors<kLanes>::Ints;
  const uint64_t mixed_key = Mix64(key);
  Ints lanes;
  for (int i = 0; i < kLanes; ++i) lanes[i] = 2 * i;
  for (size_t done = 0; done < floats.size(); done += kLanes) {
    const Ints counter = lanes + 2 * (first + done);
    const Doubles u = Uniform<Doubles>(mixed_key, counter);
    const Doubles v = Uniform<Doubles>(mixed_key, counter + 1);
    const Doubles normal = deviation * (Root(-2 * Log<Ints>(1 - u)) * CosOfTurns<Ints>(v));
    const size_t n = std::min<size_t>(kLanes, floats.size() - done);
    for (size_t i = 0; i < n; ++i) floats[done + i] = static_cast<float>(normal[i]);
  }
}

// The same bits with other registers: none of these joins products and sums.
[[gnu::target("avx2")]] void FillAvx2(uint64_t key, uint64_t first, float deviation,
                                      std::span<float> floats) {
  Fill<4>(key, first, deviation, floats);
}
[[gnu::target("avx512f,avx512dq")]] void FillAvx512(uint64_t key, uint64_t first, float deviation,
                                                    std::span<float> floats) {
  Fill<8>(key, first, deviation, floats);
}
void FillBase(uint64_t key, uint64_t first, float deviation, std::span<float> floats) {
  Fill<2>(key, first, deviation, floats);
}

auto Best() {
  if (__builtin_cpu_supports("avx512dq")) return FillAvx512;
  return BestInstructionSet() == InstructionSet::kAvx2 ? FillAvx2 : FillBase;
}

}  // namespace

void FillNormal(uint64_t key, uint64_t first, float deviation, std::span<float> floats) {
  static const auto fill = Best();
  fill(key, first, deviation, floats);
}

}  // namespace starling
