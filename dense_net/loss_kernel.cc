// Compiled without contraction of a * b + c, as ops_kernel.cc.
#include "dense_net/loops.h"
#include "dense_net/loss_kernels_on.h"

namespace starling {
namespace STARLING_ISA {

extern const LossKernels kLossKernels;
const LossKernels kLossKernels = LossKernelsOn<Loops>::kTable;

}  // namespace STARLING_ISA
}  // namespace starling
