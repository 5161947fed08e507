// The kernels of a CPU, compiled without contraction of a * b + c.
#include "dense_net/kernels_on.h"
#include "dense_net/loops.h"

namespace starling {
namespace STARLING_ISA {

extern const Kernels kKernels;
const Kernels kKernels = KernelsOn<Loops>::kTable;

}  // namespace STARLING_ISA
}  // namespace starling
