// The inner loops of ops that take a row as a matrix of fields, or as a whole,
// beside kernels.h and by its rules.
#pragma once

#include <cstdint>

#include "dense_net/real.h"

namespace starling {

inline constexpr double kLayerNormEps = 1e-5;
inline constexpr double kNormalizeSquareMin = 1e-12;  // A vector of zeros stays one.

// Rows that are `stride` apart.
template <typename T>
struct Strided {
  T* data;
  int64_t stride;
};
using RowsIn = Strided<const Real>;
using RowsOut = Strided<Real>;

// Row at[i] of `rows`.
struct GatheredRows {
  const Real* rows;
  const uint32_t* at;
};

struct FieldKernels {
  // sums (m, 2 dim) = the sum of a row's vectors, x (m, slots, dim), and that of their squares.
  void (*fm_sums)(int m, int slots, int dim, RowsIn x, Real* sums, bool add);
  // y (m) = half of (the squared sum less the sum of squares).
  void (*fm)(int m, int dim, const Real* sums, Real* y);
  // out (m, slots, dim), from g (m).
  void (*fm_backward)(int m, int slots, int dim, RowsIn x, const Real* sums, const Real* g,
                      RowsOut out, bool add);
  // Of vectors that several rows share: row to[i] of out is added to, unless it is `none`; no
  // other is twice in `to`. sums (m, 2 dim) begins with those of g * sum and of g over the rows.
  void (*fm_shared_backward)(int m, int slots, int dim, RowsIn x, const Real* sums,
                             const uint32_t* to, uint32_t none, RowsOut out);
  // y (m, dim) = half of (the squared sum less the sum of squares) of x (m, slots, dim),
  // by coordinate. scratch: (m, dim).
  void (*bi_interaction)(int m, int slots, int dim, const Real* x, Real* scratch, Real* y);
  void (*bi_interaction_backward)(int m, int slots, int dim, const Real* x, const Real* g,
                                  Real* scratch, Real* out, bool add);
  // y = x0 * u + bias + x: u is one number a row, bias one a column.
  void (*cross)(int m, int n, const Real* x0, const Real* u, const Real* bias, const Real* x,
                Real* y);
  // out (m, n) = factor * x, each row times its scale (m, 1).
  void (*scale_rows)(int m, int n, Real factor, RowsIn x, RowsIn scale, RowsOut out, bool add);
  // out (m, 1) = factor * the dot products of the rows of a and b (m, n).
  void (*row_dots)(int m, int n, Real factor, RowsIn a, RowsIn b, RowsOut out, bool add);
  // out (m, n, n2): the products of all of a row of x (m, n) and all of that of y (m, n2).
  void (*outer)(int m, int n, int n2, const Real* x, const Real* y, Real* out);
  // dx (m, n) and dy (m, n2) from g (m, n, n2).
  void (*outer_backward)(int m, int n, int n2, const Real* x, const Real* y, const Real* g,
                         Real* dx, bool add_x, Real* dy, bool add_y);
  // out (m, n2, n) = x (m, n, n2), transposed row by row.
  void (*transpose)(int m, int n, int n2, const Real* x, Real* out, bool add);
  // y (m, n) = each row of x less its mean, by its deviation, times scale, plus shift.
  void (*layer_norm)(int m, int n, const Real* x, const Real* scale, const Real* shift, Real* y);
  // scale_grad (n) is added to. scratch: (m, 2).
  void (*layer_norm_backward)(int m, int n, const Real* x, const Real* scale, const Real* g,
                              Real* scratch, Real* scale_grad, Real* out, bool add);
  // y (m, n) = each row of x over its Euclidean norm.
  void (*normalize)(int m, int n, const Real* x, Real* y);
  void (*normalize_backward)(int m, int n, const Real* x, const Real* y, const Real* g, Real* out,
                             bool add);
  // y (m, n) = the softmax of each row of scale * x.
  void (*softmax)(int m, int n, Real scale, const Real* x, Real* y);
  void (*softmax_backward)(int m, int n, Real scale, const Real* y, const Real* g, Real* out,
                           bool add);
  // out = scale * a * b.
  void (*scaled_multiply)(int64_t n, Real scale, const Real* a, const Real* b, Real* out, bool add);
  // out (m, n) = x.
  void (*copy_rows)(int m, int n, RowsIn x, RowsOut out, bool add);
  // out (m, n) += the rows that each of `sources` names, one source after the other.
  void (*add_gathered)(int m, int n, int sources, const GatheredRows* from, Real* out);
  // Row to[i] of out += row i of x (m, n), in the order of i.
  void (*scatter_add)(int m, int n, const uint32_t* to, RowsIn x, RowsOut out);
  // out (m, n) = the sum of the `parts` vectors of each row of x (m, parts, n).
  void (*sum_parts)(int m, int parts, int n, const Real* x, Real* out);
  // out (m, parts, n): each of the vectors is g's (m, n).
  void (*spread_parts)(int m, int parts, int n, const Real* g, Real* out, bool add);
  // out (m, pairs, dim): vector i of a times vector j of b, coordinate by
  // coordinate, for i < j; a and b are (m, slots, dim).
  void (*pair_products)(int m, int slots, int dim, const Real* a, const Real* b, Real* out);
  void (*pair_products_backward)(int m, int slots, int dim, const Real* a, const Real* b,
                                 const Real* g, Real* da, bool add_a, Real* db, bool add_b);
  // out (n, n), symmetric, has the pairs (0, 1), (0, 2), … (1, 2), … and zeros on the diagonal;
  // and the pairs of such a matrix.
  void (*fill_symmetric)(int n, const Real* pairs, Real* out);
  void (*upper)(int n, const Real* square, Real* pairs);
  // y = x, or slope[j] * x where x is negative.
  void (*prelu)(int m, int n, const Real* x, const Real* slope, Real* y);
  // slope_grad (n) is added to.
  void (*prelu_slope_grad)(int m, int n, const Real* x, const Real* g, Real* slope_grad);
  void (*prelu_backward)(int m, int n, const Real* x, const Real* slope, const Real* g, Real* out,
                         bool add);
  void (*leaky_relu)(int64_t n, Real slope, const Real* x, Real* y);
  void (*leaky_relu_backward)(int64_t n, Real slope, const Real* y, const Real* g, Real* out,
                              bool add);
  void (*gelu)(int64_t n, const Real* x, Real* y);
  void (*gelu_backward)(int64_t n, const Real* x, const Real* g, Real* out, bool add);
};

}  // namespace starling
