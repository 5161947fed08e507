#include "base/narrow_float.h"

#include <cstring>

#include "base/narrow_float_kernel.h"
#include "base/random.h"

namespace starling {
namespace {

constexpr int kScaleBytes = sizeof(float);

int RoundUp4(int bytes) { return (bytes + 3) & ~3; }

int ValueBytes(FloatType type, int n) {
  switch (type) {
    case FloatType::kFp32:
      return 4 * n;
    case FloatType::kFp16:
    case FloatType::kBf16:
      return 2 * n;
    case FloatType::kInt8:
      return kScaleBytes + n;
  }
  __builtin_unreachable();
}

void EncodeBy(FloatType type, std::span<const float> in, bool random, uint64_t seed, void* bytes) {
  const int n = static_cast<int>(in.size());
  char* out = static_cast<char*>(bytes);
  const int used = ValueBytes(type, n);
  std::memset(out + used, 0, RoundUp4(used) - used);
  const NarrowKernels& kernel = NarrowKernel();
  switch (type) {
    case FloatType::kFp32:
      if (n > 0) std::memcpy(out, in.data(), used);
      return;
    case FloatType::kFp16:
      return kernel.encode_fp16(n, in.data(), random, seed, reinterpret_cast<uint16_t*>(out));
    case FloatType::kBf16:
      return kernel.encode_bf16(n, in.data(), random, seed, reinterpret_cast<uint16_t*>(out));
    case FloatType::kInt8: {
      float scale;
      kernel.encode_int8(n, in.data(), random, seed, &scale,
                         reinterpret_cast<int8_t*>(out + kScaleBytes));
      std::memcpy(out, &scale, kScaleBytes);
      return;
    }
  }
}

}  // namespace

const NarrowKernels& NarrowKernel() {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                          __builtin_cpu_supports("bmi2");  // And F16C, which came before AVX2.
  return has ? avx2::kNarrow : base::kNarrow;
}

int EncodedBytes(FloatType type, int n) { return RoundUp4(ValueBytes(type, n)); }

void Decode(FloatType type, const void* bytes, std::span<float> out) {
  const int n = static_cast<int>(out.size());
  const char* in = static_cast<const char*>(bytes);
  const NarrowKernels& kernel = NarrowKernel();
  switch (type) {
    case FloatType::kFp32:
      if (n > 0) std::memcpy(out.data(), in, out.size_bytes());
      return;
    case FloatType::kFp16:
      return kernel.decode_fp16(n, reinterpret_cast<const uint16_t*>(in), out.data());
    case FloatType::kBf16:
      return kernel.decode_bf16(n, reinterpret_cast<const uint16_t*>(in), out.data());
    case FloatType::kInt8: {
      float scale;
      std::memcpy(&scale, in, kScaleBytes);
      return kernel.decode_int8(n, scale, reinterpret_cast<const int8_t*>(in + kScaleBytes),
                                out.data());
    }
  }
}

void Encode(FloatType type, std::span<const float> in, uint64_t random_key, void* bytes) {
  EncodeBy(type, in, true, Mix64(random_key), bytes);
}

void EncodeNearest(FloatType type, std::span<const float> in, void* bytes) {
  EncodeBy(type, in, false, 0, bytes);
}

}  // namespace starling
