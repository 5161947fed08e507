// A GPU as a Device: the kernels of kernels_on.h compiled by nvcc, products by
// cuBLAS. Compiled wherever nvcc is (target dense_net_cuda); nothing here has
// run on a GPU yet, and some of a step is the host's still (docs/architecture.md).
//
// A thread's kernels and products run in order on its own stream.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "dense_net/device.h"

namespace starling {

namespace cuda {
extern const Kernels kKernels;
extern const FieldKernels kFieldKernels;
extern const SequenceKernels kSequenceKernels;
extern const LossKernels kLossKernels;
// B in the panels of gemm.h, as GemmKernels::pack.
void Pack(int k, int n, const Real* b, int64_t row_stride, int64_t col_stride, Real* out);
}  // namespace cuda

// GPU number `index`. Unavailable if there is none.
absl::StatusOr<std::unique_ptr<Device>> OpenCudaDevice(int index);

}  // namespace starling
