// Products that leave out the zeros of A, or of B. Behind a ReLU half of the values or more are
// zero, and so are the gradients before it; a zero adds nothing to a chain of multiply-adds
// (gemm.h), so that the bits of the result are those of the whole product. (But for the sign of a
// zero, and where what a zero would be multiplied with is not finite.)
//
// For AVX2 and better, and gemm_kernel.cc alone.
#pragma once

#include "dense_net/gemm.h"

namespace starling {
namespace STARLING_ISA {

// Whether that is faster; looks at some of A's rows.
bool WorthSkipping(int m, int n, int k, const GemmA& a);

// REQUIRES: A's rows or columns are adjacent.
void MultiplySkipping(int m, int n, int k, const GemmA& a, const GemmB& b, GemmStart start,
                      const float* bias, float* c);

// The same of B's zeros, for C += A B with a transposed A: the gradient of a layer's weights where
// its inputs have few zeros, and what stands behind it has many.
bool WorthSkippingB(int m, int n, int k, const GemmA& a, const GemmB& b);
// Returns how many of C's rows, the first, it added to: all but some of less than a panel.
// REQUIRES: A's columns are adjacent.
int AddSkippingB(int m, int n, int k, const GemmA& a, const GemmB& b, float* c);

}  // namespace STARLING_ISA
}  // namespace starling
