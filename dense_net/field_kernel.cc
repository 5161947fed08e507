// Compiled without contraction of a * b + c, as ops_kernel.cc.
#include "dense_net/field_kernels_on.h"
#include "dense_net/loops.h"

namespace starling {
namespace STARLING_ISA {

extern const FieldKernels kFieldKernels;
const FieldKernels kFieldKernels = FieldKernelsOn<Loops>::kTable;

}  // namespace STARLING_ISA
}  // namespace starling
