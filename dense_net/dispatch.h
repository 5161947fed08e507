// The tables of kernels that this machine's processor can run. For the CPU's devices
// and for tests of the kernels themselves: an op takes what it needs from the
// device that it is handed, and tests/layering_test.py holds it to that.
#pragma once

#include <span>

#include "dense_net/device.h"

namespace starling {

// One set an instruction set: any x86-64 first, the best last. Never empty, the
// same at every call.
std::span<const KernelSet> CpuKernelSets();

}  // namespace starling
