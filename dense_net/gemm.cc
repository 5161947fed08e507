#include "dense_net/gemm.h"

#include "dense_net/kernels.h"

namespace starling {

const char* GemmInstructionSet() { return GemmKernel().name; }

GemmB PackGemmB(int k, int n, const Real* b, int64_t row_stride, int64_t col_stride, Real* out) {
  GemmKernel().pack(k, n, b, row_stride, col_stride, out);
  return PackedGemmB(k, n, out);
}

GemmB ViewGemmB(int k, int n, const Real* b, Real* last) {
  const int whole = n / kGemmPanel * kGemmPanel;
  if (whole < n) GemmKernel().pack(k, n - whole, b + whole, n, 1, last);
  return {b, kGemmPanel, n, last};
}

void Gemm(int m, int n, int k, const GemmA& a, const GemmB& b, GemmStart start, const Real* bias,
          Real* c) {
  GemmKernel().gemm(m, n, k, a, b, start, bias, c);
}

void RowDots(int m, int k, const Real* x, const Real* w, Real start, Real* y) {
  GemmKernel().row_dots(m, k, x, w, start, y);
}

}  // namespace starling
