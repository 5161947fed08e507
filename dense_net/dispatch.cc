// Chooses the instruction set, once.
#include "dense_net/dispatch.h"

namespace starling {

namespace base {
extern const GemmKernels kGemm;
extern const Kernels kKernels;
extern const FieldKernels kFieldKernels;
}  // namespace base
namespace avx2 {
extern const GemmKernels kGemm;
extern const Kernels kKernels;
extern const FieldKernels kFieldKernels;
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
const FieldKernels& FieldKernel() { return HasAvx2() ? avx2::kFieldKernels : base::kFieldKernels; }

}  // namespace starling
