// Looks at the processor, once.
#include "dense_net/dispatch.h"

namespace starling {

#define STARLING_KERNELS_OF(isa)                                                      \
  namespace isa {                                                                     \
  extern const GemmKernels kGemm;                                                     \
  extern const Kernels kKernels;                                                      \
  extern const FieldKernels kFieldKernels;                                            \
  extern const SequenceKernels kSequenceKernels;                                      \
  extern const LossKernels kLossKernels;                                              \
  }                                                                                   \
  constexpr KernelSet kSet_##isa = {&isa::kGemm, &isa::kKernels, &isa::kFieldKernels, \
                                    &isa::kSequenceKernels, &isa::kLossKernels};
STARLING_KERNELS_OF(base)
STARLING_KERNELS_OF(avx2)
STARLING_KERNELS_OF(avx512)
#undef STARLING_KERNELS_OF

namespace {

bool HasAvx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi2");
}
bool HasAvx512() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

constexpr KernelSet kSets[] = {kSet_base, kSet_avx2, kSet_avx512};

}  // namespace

std::span<const KernelSet> CpuKernelSets() {
  static const size_t runnable = HasAvx512() ? 3 : HasAvx2() ? 2 : 1;
  return std::span(kSets).first(runnable);
}

}  // namespace starling
