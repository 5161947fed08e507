#include "dense_net/gemm.h"

#include "dense_net/kernels.h"

namespace starling {

namespace base {
extern const GemmKernels kGemm;
extern const Kernels kKernels;
}  // namespace base
namespace avx2 {
extern const GemmKernels kGemm;
extern const Kernels kKernels;
}  // namespace avx2

namespace {
bool HasAvx2() {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                          __builtin_cpu_supports("bmi2");
  return has;
}
}  // namespace

const GemmKernels& GemmKernel() { return HasAvx2() ? avx2::kGemm : base::kGemm; }
const Kernels& Kernel() { return HasAvx2() ? avx2::kKernels : base::kKernels; }
const char* GemmInstructionSet() { return GemmKernel().name; }

GemmB PackGemmB(int k, int n, const float* b, int64_t row_stride, int64_t col_stride, float* out) {
  GemmKernel().pack(k, n, b, row_stride, col_stride, out);
  const int64_t panel = static_cast<int64_t>(k) * kGemmPanel;
  return {out, panel, kGemmPanel, out + n / kGemmPanel * panel};
}

GemmB ViewGemmB(int k, int n, const float* b, float* last) {
  const int whole = n / kGemmPanel * kGemmPanel;
  if (whole < n) GemmKernel().pack(k, n - whole, b + whole, n, 1, last);
  return {b, kGemmPanel, n, last};
}

void Gemm(int m, int n, int k, const GemmA& a, const GemmB& b, GemmStart start, const float* bias,
          float* c) {
  GemmKernel().gemm(m, n, k, a, b, start, bias, c);
}

void RowDots(int m, int k, const float* x, const float* w, float start, float* y) {
  GemmKernel().row_dots(m, k, x, w, start, y);
}

}  // namespace starling
