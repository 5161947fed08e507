// The inner loops of ops that take a row as a matrix of fields, beside
// kernels.h and by its rules: one table for any x86-64, one for AVX2 + FMA.
#pragma once

#include <cstdint>

#include "dense_net/real.h"

namespace starling {

inline constexpr double kLayerNormEps = 1e-5;

struct FieldKernels {
  // y (m, dim) = half of (the squared sum less the sum of squares) of x (m, slots, dim),
  // by coordinate. scratch: (dim).
  void (*bi_interaction)(int m, int slots, int dim, const Real* x, Real* scratch, Real* y);
  void (*bi_interaction_backward)(int m, int slots, int dim, const Real* x, const Real* g,
                                  Real* scratch, Real* out, bool add);
  // y = x0 * u + bias + x: u is one number a row, bias one a column.
  void (*cross)(int m, int n, const Real* x0, const Real* u, const Real* bias, const Real* x,
                Real* y);
  // out (m, n) = x, each row times scale[i].
  void (*scale_rows)(int m, int n, const Real* x, const Real* scale, Real* out, bool add);
  // out (m, n, n2): the products of all of a row of x (m, n) and all of that of y (m, n2).
  void (*outer)(int m, int n, int n2, const Real* x, const Real* y, Real* out);
  // out (m, n2, n) = x (m, n, n2), transposed row by row.
  void (*transpose)(int m, int n, int n2, const Real* x, Real* out, bool add);
  // y (m, n) = each row of x less its mean, by its deviation, times scale, plus shift.
  void (*layer_norm)(int m, int n, const Real* x, const Real* scale, const Real* shift, Real* y);
  // scale_grad (n) is added to. scratch: (n).
  void (*layer_norm_backward)(int m, int n, const Real* x, const Real* scale, const Real* g,
                              Real* scratch, Real* scale_grad, Real* out, bool add);
  // out = scale * a * b.
  void (*scaled_multiply)(int64_t n, Real scale, const Real* a, const Real* b, Real* out, bool add);
  // out (m, pairs, dim): vector i of a times vector j of b, coordinate by
  // coordinate, for i < j; a and b are (m, slots, dim).
  void (*pair_products)(int m, int slots, int dim, const Real* a, const Real* b, Real* out);
  // da and db are added to.
  void (*pair_products_backward)(int m, int slots, int dim, const Real* a, const Real* b,
                                 const Real* g, Real* da, Real* db);
};

const FieldKernels& FieldKernel();

}  // namespace starling
