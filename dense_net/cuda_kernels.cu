// The tables of kernels.h and those beside it on a GPU. A kernel is launched on the calling thread's
// own stream, so a lane's kernels run in order and lanes overlap.
#include <cuda_runtime.h>

#include "dense_net/field_kernels_on.h"
#include "dense_net/loss_kernels_on.h"
#include "dense_net/sequence_kernels_on.h"

namespace starling {
namespace STARLING_ISA {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kBlocksMax = 4096;  // Past it, a thread takes several elements.

int Blocks(int64_t n) {
  const int64_t blocks = (n + kThreads - 1) / kThreads;
  return static_cast<int>(blocks < kBlocksMax ? blocks : kBlocksMax);
}

template <typename Fn>
__global__ void ForEach(int64_t n, Fn fn) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) fn(i);
}

// One functor of functors each: how an index of ForEach becomes a place.
template <typename Fn>
struct Cell {
  Fn fn;
  int n;
  __device__ void operator()(int64_t at) const {
    fn(static_cast<int>(at / n), static_cast<int>(at % n));
  }
};
template <typename Fn>
struct Column {
  Fn fn;
  int m;
  __device__ void operator()(int64_t j) const {
    for (int i = 0; i < m; ++i) fn(i, static_cast<int>(j));
  }
};
template <typename Fn>
struct Row {
  Fn fn;
  __device__ void operator()(int64_t i) const { fn(static_cast<int>(i)); }
};
template <typename Fn>
struct ScratchRow {
  Fn fn;
  int floats;
  Real* scratch;
  __device__ void operator()(int64_t i) const { fn(static_cast<int>(i), scratch + i * floats); }
};

}  // namespace

struct CudaRun {
  static constexpr bool kRowsInOrder = false;
  template <typename Fn>
  static void Elements(int64_t n, Fn fn) {
    if (n > 0) ForEach<<<Blocks(n), kThreads, 0, cudaStreamPerThread>>>(n, fn);
  }
  template <typename Fn>
  static void Matrix(int m, int n, Fn fn) {
    Elements(int64_t{m} * n, Cell<Fn>{fn, n});
  }
  template <typename Fn>
  static void Columns(int m, int n, Fn fn) {
    Elements(n, Column<Fn>{fn, m});
  }
  template <typename Fn>
  static void Rows(int m, Fn fn) {
    Elements(m, Row<Fn>{fn});
  }
  template <typename Fn>
  static void Rows(int m, int floats, Real* scratch, Fn fn) {
    Elements(m, ScratchRow<Fn>{fn, floats, scratch});
  }
};

extern const Kernels kKernels;
const Kernels kKernels = KernelsOn<CudaRun>::kTable;
extern const FieldKernels kFieldKernels;
const FieldKernels kFieldKernels = FieldKernelsOn<CudaRun>::kTable;
extern const SequenceKernels kSequenceKernels;
const SequenceKernels kSequenceKernels = SequenceKernelsOn<CudaRun>::kTable;
extern const LossKernels kLossKernels;
const LossKernels kLossKernels = LossKernelsOn<CudaRun>::kTable;

void Pack(int k, int n, const Real* b, int64_t row_stride, int64_t col_stride, Real* out) {
  CudaRun::Elements(PackedGemmFloats(k, n), [=] __host__ __device__(int64_t at) {
    const int64_t panel = at / (int64_t{k} * kGemmPanel), row = at / kGemmPanel % k;
    const int64_t col = panel * kGemmPanel + at % kGemmPanel;
    out[at] = col < n ? b[row * row_stride + col * col_stride] : 0;
  });
}

}  // namespace STARLING_ISA
}  // namespace starling
