#include "sample_io/null_gaps.h"

#include <immintrin.h>

#include <bit>

#define STARLING_AVX512 [[gnu::target("avx512f,avx512bw,avx512vl,avx512vpopcntdq,popcnt")]]

namespace starling {
namespace {

// Entries [from, n), of which `next` were there before.
size_t PickSome(const uint64_t* values, const uint8_t* valid, size_t from, size_t n, size_t next,
                uint32_t* offsets, uint32_t* entry_of, uint64_t* out) {
  for (size_t i = from; i < n; ++i) {  // What a null writes, the next value overwrites.
    offsets[i] = static_cast<uint32_t>(next);
    entry_of[next] = static_cast<uint32_t>(i);
    out[next] = values[i];
    next += valid[i] != 0;
  }
  return next;
}

STARLING_AVX512 size_t PickAvx512(const uint64_t* values, const uint8_t* valid, size_t n,
                                  uint32_t* offsets, uint32_t* entry_of, uint64_t* out) {
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i before =
      _mm512_sub_epi32(_mm512_sllv_epi32(_mm512_set1_epi32(1), lanes), _mm512_set1_epi32(1));
  size_t next = 0, i = 0;
  // A store of sixteen ends no later than the entries read so far: next <= i.
  for (; i + 16 <= n; i += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(valid + i));
    const __mmask16 is = _mm_test_epi8_mask(bytes, bytes);
    const __m512i earlier = _mm512_and_si512(_mm512_set1_epi32(is), before);
    _mm512_storeu_si512(offsets + i, _mm512_add_epi32(_mm512_set1_epi32(static_cast<int>(next)),
                                                      _mm512_popcnt_epi32(earlier)));
    const __m512i entries = _mm512_add_epi32(lanes, _mm512_set1_epi32(static_cast<int>(i)));
    _mm512_storeu_si512(entry_of + next, _mm512_maskz_compress_epi32(is, entries));
    const auto low = static_cast<__mmask8>(is), high = static_cast<__mmask8>(is >> 8);
    _mm512_storeu_si512(out + next,
                        _mm512_maskz_compress_epi64(low, _mm512_loadu_si512(values + i)));
    next += static_cast<size_t>(std::popcount(static_cast<unsigned>(low)));
    _mm512_storeu_si512(out + next,
                        _mm512_maskz_compress_epi64(high, _mm512_loadu_si512(values + i + 8)));
    next += static_cast<size_t>(std::popcount(static_cast<unsigned>(high)));
  }
  return PickSome(values, valid, i, n, next, offsets, entry_of, out);
}

void SpreadSome(const uint64_t* present, const uint8_t* levels, uint8_t level, size_t n,
                uint64_t* out) {
  for (size_t i = 0; i < n; ++i) {  // A null takes what stands there.
    out[i] = *present;
    present += levels[i] == level;
  }
}

STARLING_AVX512 void SpreadAvx512(const uint64_t* present, const uint8_t* levels, uint8_t level,
                                  size_t n, uint64_t* out) {
  const __m128i wanted = _mm_set1_epi8(static_cast<char>(level));
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(levels + i));
    const __mmask16 is = _mm_cmpeq_epi8_mask(bytes, wanted);
    const auto low = static_cast<__mmask8>(is), high = static_cast<__mmask8>(is >> 8);
    _mm512_storeu_si512(out + i, _mm512_maskz_expandloadu_epi64(low, present));
    present += std::popcount(static_cast<unsigned>(low));
    _mm512_storeu_si512(out + i + 8, _mm512_maskz_expandloadu_epi64(high, present));
    present += std::popcount(static_cast<unsigned>(high));
  }
  SpreadSome(present, levels + i, level, n - i, out + i);
}

}  // namespace

GapCode BestGapCode() {
  static const bool avx512 =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vpopcntdq");
  return avx512 ? GapCode::kAvx512 : GapCode::kPlain;
}

void SpreadValues(const uint64_t* present, const uint8_t* levels, uint8_t level, size_t n,
                  uint64_t* out, GapCode code) {
  code == GapCode::kAvx512 ? SpreadAvx512(present, levels, level, n, out)
                           : SpreadSome(present, levels, level, n, out);
}

size_t PickValues(const uint64_t* values, const uint8_t* valid, size_t n, uint32_t* offsets,
                  uint32_t* entry_of, uint64_t* out, GapCode code) {
  return code == GapCode::kAvx512 ? PickAvx512(values, valid, n, offsets, entry_of, out)
                                  : PickSome(values, valid, 0, n, 0, offsets, entry_of, out);
}

}  // namespace starling
