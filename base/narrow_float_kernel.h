// The loops of base/narrow_float.h, compiled once for any x86-64 and once for
// AVX2 + F16C. Nothing here is inline: the two objects must not share code.
#pragma once

#include <cstdint>

namespace starling {

struct NarrowKernels {
  // `q` are the bytes after the scale.
  void (*decode_fp16)(int n, const uint16_t* in, float* out);
  void (*decode_bf16)(int n, const uint16_t* in, float* out);
  void (*decode_int8)(int n, float scale, const int8_t* q, float* out);
  // With `random`, stochastic rounding under `seed` (well mixed); else nearest.
  void (*encode_fp16)(int n, const float* in, bool random, uint64_t seed, uint16_t* out);
  void (*encode_bf16)(int n, const float* in, bool random, uint64_t seed, uint16_t* out);
  void (*encode_int8)(int n, const float* in, bool random, uint64_t seed, float* scale, int8_t* q);
};

namespace base {
extern const NarrowKernels kNarrow;
}  // namespace base
namespace avx2 {
extern const NarrowKernels kNarrow;
}  // namespace avx2

// The table that suits this machine.
const NarrowKernels& NarrowKernel();

}  // namespace starling
