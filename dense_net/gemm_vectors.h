// Vectors of the instruction set that a kernel is compiled for, as products use them.
// For the files of gemm kernels alone, which are compiled once for each.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace starling {
namespace STARLING_ISA {
namespace {

#ifdef __AVX512F__
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

typedef float Vec __attribute__((vector_size(kLanes * 4)));
typedef float LooseVec __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));

inline Vec Load(const float* p) { return *reinterpret_cast<const LooseVec*>(p); }
inline void Store(float* p, Vec v) { *reinterpret_cast<LooseVec*>(p) = v; }
#ifdef __AVX512F__
inline Vec Spread(float x) { return _mm512_set1_ps(x); }
inline Vec MultiplyAdd(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
#elif defined(__AVX2__)
inline Vec Spread(float x) { return _mm256_set1_ps(x); }
inline Vec MultiplyAdd(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
#else
inline Vec Spread(float x) { return _mm_set1_ps(x); }
inline Vec MultiplyAdd(Vec a, Vec b, Vec c) { return a * b + c; }
#endif

// The chains of a block of C: from `start`, whose rows are start_stride apart (0: one
// row for all), to `c`.
struct Chains {
  const float* start;
  int64_t start_stride;
  float* c;
  int64_t stride;

  Chains At(int row, int column) const {
    return {start + row * start_stride + column, start_stride, c + row * stride + column, stride};
  }
};

}  // namespace
}  // namespace STARLING_ISA
}  // namespace starling
