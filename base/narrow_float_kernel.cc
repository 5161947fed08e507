// Written as loops without branches, in integers where rounding is at stake, so
// that the compiler turns them into vectors and every instruction set gives the
// same bits. Compiled without contraction of a * b + c.
#include "base/narrow_float_kernel.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

namespace starling {
namespace STARLING_ISA {
namespace {

constexpr uint32_t kInfinity = 0x7F800000;  // Bits of fp32 infinity.
constexpr uint32_t kNan = 0x7FC00000;
constexpr uint32_t kFp16Max = 0x477FE000;        // 65504.
constexpr uint32_t kFp16NormalMin = 0x38800000;  // 2^-14.
constexpr uint32_t kBf16Max = 0x7F7F0000;
// The largest scale whose 127-fold is finite, at 16 significant bits.
constexpr uint32_t kInt8ScaleMax = 0x7C010200;

uint32_t Bits(float x) { return __builtin_bit_cast(uint32_t, x); }
float Float(uint32_t bits) { return __builtin_bit_cast(float, bits); }

// By masks: `?:` between two long computations would become a branch, and the loop no vector.
uint32_t Select(bool condition, uint32_t yes, uint32_t no) {
  const uint32_t mask = -static_cast<uint32_t>(condition);
  return (yes & mask) | (no & ~mask);
}

// 32 bits that are a function of (seed, i): two rounds of multiply and shift,
// which exist for vectors.
uint32_t Random32(uint64_t seed, int i) {
  uint32_t x = static_cast<uint32_t>(seed) + static_cast<uint32_t>(i) * 0x9E3779B9u;
  x = (x ^ (x >> 16)) * 0x7FEB352Du;
  x ^= static_cast<uint32_t>(seed >> 32);
  x = (x ^ (x >> 15)) * 0x846CA68Bu;
  return x ^ (x >> 16);
}

// What is added to the bits of a float before its low `drop` bits are cut off.
template <bool kRandom>
uint32_t Carry(uint32_t bits, uint32_t random, int drop) {
  const uint32_t mask = (1u << drop) - 1;
  return kRandom ? random & mask : (mask >> 1) + ((bits >> drop) & 1);
}

// y >= 0, as a whole number. Up with the chance of its fraction, to 2^-24.
template <bool kRandom>
uint32_t RoundWhole(float y, uint32_t random) {
  const int32_t whole = static_cast<int32_t>(y);
  const float fraction = y - static_cast<float>(whole);
  const float threshold =
      kRandom ? static_cast<float>(static_cast<int32_t>(random >> 8)) * 0x1.0p-24f
              : Float(0x3F000000u - (static_cast<uint32_t>(whole) & 1));  // Half; a tie to even.
  return static_cast<uint32_t>(whole + (fraction > threshold ? 1 : 0));
}

template <bool kRandom>
uint16_t ToFp16(float x, uint32_t random) {
  const uint32_t sign = (Bits(x) >> 16) & 0x8000, magnitude = Bits(x) & 0x7FFFFFFF;
  const uint32_t a = magnitude < kFp16Max ? magnitude : kFp16Max;
  const uint32_t normal = ((a + Carry<kRandom>(a, random, 13)) >> 13) - (112 << 10);
  // Below 2^-14 the unit is 2^-24, and the bits are the number of units.
  const float small = Float(magnitude < kFp16NormalMin ? magnitude : kFp16NormalMin) * 0x1.0p24f;
  const uint32_t units = RoundWhole<kRandom>(small, random);
  const uint32_t finite = Select(magnitude < kFp16NormalMin, units, normal);
  const uint32_t nan = magnitude > kInfinity ? 0x200 | ((magnitude >> 13) & 0x1FF) : 0;
  return static_cast<uint16_t>(sign | Select(magnitude < kInfinity, finite, 0x7C00 | nan));
}

template <bool kRandom>
uint16_t ToBf16(float x, uint32_t random) {
  const uint32_t sign = (Bits(x) >> 16) & 0x8000, magnitude = Bits(x) & 0x7FFFFFFF;
  const uint32_t a = magnitude < kBf16Max ? magnitude : kBf16Max;
  const uint32_t finite = (a + Carry<kRandom>(a, random, 16)) >> 16;
  const uint32_t special = (magnitude >> 16) | (magnitude > kInfinity ? 0x40 : 0);
  return static_cast<uint16_t>(sign | (magnitude < kInfinity ? finite : special));
}

// Shifts the exponent; 0 and denormals are brought to [2^-14, 2^-13) and
// lose the 2^-14 again, exactly.
float FromFp16(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16;
  const uint32_t magnitude = h & 0x7FFF;
  const uint32_t shifted = (magnitude << 13) + (112u << 23);
  const uint32_t small = Bits(Float(shifted + (1u << 23)) - Float(kFp16NormalMin));
  const uint32_t special = (magnitude << 13) | kInfinity | (magnitude > 0x7C00 ? 0x400000 : 0);
  const uint32_t finite = Select(magnitude < 0x400, small, shifted);
  return Float(sign | Select(magnitude < 0x7C00, finite, special));
}

void DecodeFp16(int n, const uint16_t* __restrict in, float* __restrict out) {
  int i = 0;
#ifdef __F16C__
  for (; i + 8 <= n; i += 8) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i));
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(half));
  }
#endif
  for (; i < n; ++i) out[i] = FromFp16(in[i]);
}

void DecodeBf16(int n, const uint16_t* __restrict in, float* __restrict out) {
  for (int i = 0; i < n; ++i) out[i] = Float(static_cast<uint32_t>(in[i]) << 16);
}

void DecodeInt8(int n, float scale, const int8_t* __restrict q, float* __restrict out) {
  for (int i = 0; i < n; ++i) out[i] = static_cast<float>(q[i]) * scale;
}

void EncodeFp16(int n, const float* __restrict in, bool random, uint64_t seed,
                uint16_t* __restrict out) {
  if (random) {
    for (int i = 0; i < n; ++i) out[i] = ToFp16<true>(in[i], Random32(seed, i));
  } else {
    for (int i = 0; i < n; ++i) out[i] = ToFp16<false>(in[i], 0);
  }
}

void EncodeBf16(int n, const float* __restrict in, bool random, uint64_t seed,
                uint16_t* __restrict out) {
  if (random) {
    for (int i = 0; i < n; ++i) out[i] = ToBf16<true>(in[i], Random32(seed, i));
  } else {
    for (int i = 0; i < n; ++i) out[i] = ToBf16<false>(in[i], 0);
  }
}

// largest / 127 to 16 significant bits, rounded as the values are: rounding up
// each time would make the largest value of a row grow from step to step.
template <bool kRandom>
float Int8Scale(float largest, uint64_t seed) {
  uint32_t bits = Bits(largest / 127.0f);
  bits = (bits + Carry<kRandom>(bits, Random32(seed, -1), 8)) & ~0xFFu;
  return Float(bits < kInt8ScaleMax ? bits : kInt8ScaleMax);
}

template <bool kRandom>
void ToInt8(int n, const float* __restrict in, float largest, uint64_t seed,
            float* __restrict scale_out, int8_t* __restrict q) {
  const float scale = Int8Scale<kRandom>(largest, seed);
  *scale_out = scale;
  if (scale == 0) {  // Values too small for a scale are stored as 0.
    for (int i = 0; i < n; ++i) q[i] = 0;
    return;
  }
  for (int i = 0; i < n; ++i) {
    const float magnitude = Float(Bits(in[i]) & 0x7FFFFFFF);
    // Divided, not multiplied by the inverse: q * scale must give q back.
    const float y = magnitude == largest ? 127.0f : magnitude / scale;
    const auto whole = static_cast<int32_t>(RoundWhole<kRandom>(y, Random32(seed, i)));
    const int32_t least = whole < 127 ? whole : 127;  // The scale may have been rounded down.
    q[i] = static_cast<int8_t>(in[i] < 0 ? -least : least);
  }
}

void EncodeInt8(int n, const float* __restrict in, bool random, uint64_t seed,
                float* __restrict scale, int8_t* __restrict q) {
  int32_t bits = 0;  // Floats of one sign are ordered as their bits are.
  for (int i = 0; i < n; ++i) {
    const auto magnitude = static_cast<int32_t>(Bits(in[i]) & 0x7FFFFFFF);
    bits = magnitude > bits ? magnitude : bits;
  }
  const float largest = Float(static_cast<uint32_t>(bits));
  if (bits == 0 || bits >= static_cast<int32_t>(kInfinity)) {
    *scale = bits == 0 ? 0.0f : Float(kNan);
    for (int i = 0; i < n; ++i) q[i] = 0;
  } else if (random) {
    ToInt8<true>(n, in, largest, seed, scale, q);
  } else {
    ToInt8<false>(n, in, largest, seed, scale, q);
  }
}

}  // namespace

extern const NarrowKernels kNarrow;
const NarrowKernels kNarrow = {
    .decode_fp16 = DecodeFp16,
    .decode_bf16 = DecodeBf16,
    .decode_int8 = DecodeInt8,
    .encode_fp16 = EncodeFp16,
    .encode_bf16 = EncodeBf16,
    .encode_int8 = EncodeInt8,
};

}  // namespace STARLING_ISA
}  // namespace starling
