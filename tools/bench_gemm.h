// Bare matrix products by the libraries most people would use: the reference of
// every benchmark that is about FLOPs. On the caller's thread alone.
#pragma once

namespace starling {

// C (m, n) = A (m, k) * B (k, n), or C += A * B; all row-major and dense. A
// transposed operand lies in memory as (k, m) or (n, k).
struct BareProduct {
  bool a_transposed = false, b_transposed = false, add = false;
  int m = 0, n = 0, k = 0;
  const float* a = nullptr;
  const float* b = nullptr;
  float* c = nullptr;
};
using BareGemm = void (*)(const BareProduct& product);

// Eigen, for the best instruction set of this machine.
BareGemm EigenGemm();
// OpenBLAS, if it is installed (libopenblas.so.0, found at run time); else null.
BareGemm OpenBlasGemm();

}  // namespace starling
