// Compiled without contraction of a * b + c, as ops_kernel.cc.
#include "dense_net/loops.h"
#include "dense_net/sequence_kernels_on.h"

namespace starling {
namespace STARLING_ISA {

extern const SequenceKernels kSequenceKernels;
const SequenceKernels kSequenceKernels = SequenceKernelsOn<Loops>::kTable;

}  // namespace STARLING_ISA
}  // namespace starling
