// The kernels of the double build: the shared loops, and products written out
// as gemm.h states them.
#include "dense_net/dispatch.h"

namespace starling {

namespace base {
extern const Kernels kKernels;
extern const FieldKernels kFieldKernels;
extern const SequenceKernels kSequenceKernels;
extern const LossKernels kLossKernels;
}  // namespace base

namespace {

Real Element(const GemmB& b, int n, int row, int col) {
  const int panel = col / kGemmPanel, in_panel = col % kGemmPanel;
  if ((panel + 1) * kGemmPanel > n) return b.last[int64_t{row} * kGemmPanel + in_panel];
  return b.data[panel * b.panel_stride + row * b.row_stride + in_panel];
}

void Multiply(int m, int n, int k, const GemmA& a, const GemmB& b, GemmStart start,
              const Real* bias, Real* c) {
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      Real& sum = c[int64_t{i} * n + j];
      if (start == GemmStart::kZero) sum = 0;
      if (start == GemmStart::kBias) sum = bias[j];
      for (int p = 0; p < k; ++p) {
        sum += a.data[i * a.row_stride + p * a.col_stride] * Element(b, n, p, j);
      }
    }
  }
}

void Pack(int k, int n, const Real* b, int64_t row_stride, int64_t col_stride, Real* out) {
  for (int j = 0; j < n; j += kGemmPanel) {
    for (int i = 0; i < k; ++i, out += kGemmPanel) {
      for (int c = 0; c < kGemmPanel; ++c) {
        out[c] = j + c < n ? b[i * row_stride + (j + c) * col_stride] : 0;
      }
    }
  }
}

void RowDots(int m, int k, const Real* x, const Real* w, Real start, Real* y) {
  for (int i = 0; i < m; ++i, x += k) {
    y[i] = start;
    for (int j = 0; j < k; ++j) y[i] += x[j] * w[j];
  }
}

constexpr GemmKernels kGemm = {"double", Multiply, Pack, RowDots};
constexpr KernelSet kSet = {&kGemm, &base::kKernels, &base::kFieldKernels, &base::kSequenceKernels,
                            &base::kLossKernels};

}  // namespace

std::span<const KernelSet> CpuKernelSets() { return {&kSet, 1}; }

}  // namespace starling
