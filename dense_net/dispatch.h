// The tables of kernels that suit this machine's processor. For CpuDevice() and
// for tests and benchmarks of the kernels themselves: an op takes what it needs
// from the device that it is handed, and tests/layering_test.py holds it to that.
#pragma once

#include "dense_net/field_kernels.h"
#include "dense_net/kernels.h"

namespace starling {

const GemmKernels& GemmKernel();
const Kernels& Kernel();
const FieldKernels& FieldKernel();

}  // namespace starling
