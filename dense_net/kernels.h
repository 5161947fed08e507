// The inner loops as tables of functions, one a device and instruction set: any
// x86-64, AVX2 + FMA, AVX-512 (*_kernel.cc), a GPU (cuda_kernels.cu). An op takes those of
// its device (device.h). Matrices are row-major and dense. Each function computes a row
// (or a column, where it sums down) in an order that is fixed by its width.
//
// `add` says whether a gradient is added to what `out` holds or overwrites it.
#pragma once

#include <cstdint>

#include "dense_net/gemm.h"
#include "sample_io/batch.h"

namespace starling {

// Where the gradient of one slot of a table lies, for SumOccurrences.
struct GradientRoute {
  const Real* embedding = nullptr;  // Of entry 0; null: the model reads none.
  int64_t embedding_stride = 0;     // Floats from entry to entry.
  int embedding_dim = 0, embedding_offset = 0;
  const Real* linear = nullptr;  // (entries); null: the model reads none.
  int linear_offset = 0;
  const uint32_t* row_of_entry = nullptr;  // Null: entry i is row i.
};

// The part of a slot that pooling reads.
struct SlotView {
  const uint32_t* offsets;
  const uint32_t* index;
  const float* weights;          // Null: all 1.
  const uint32_t* entry_of_row;  // Null: row i is entry i.
  const Real* rows;              // The table's pulled rows, (U, width).
  int64_t width;
};

// The occurrences of a table's ids, as Occurrences has them.
struct OccurrenceView {
  const uint32_t* codes;
  const float* weights;  // Null: all 1.
  int entry_bits;
};

struct GemmKernels {
  const char* name;
  void (*gemm)(int m, int n, int k, const GemmA& a, const GemmB& b, GemmStart start,
               const Real* bias, Real* c);
  void (*pack)(int k, int n, const Real* b, int64_t row_stride, int64_t col_stride, Real* out);
  void (*row_dots)(int m, int k, const Real* x, const Real* w, Real start, Real* y);
};

struct Kernels {
  // out (n) += the sum over rows of x (m, n), each times scale[i] if given.
  void (*add_rows)(int m, int n, const Real* x, const Real* scale, Real* out);
  // Column means of x (m, n), and sums of squared distances from them.
  void (*column_moments)(int m, int n, const Real* x, Real* mean, Real* m2);
  // out (m, n): each row is x (n).
  void (*spread)(int m, int n, const Real* x, Real* out);
  void (*fill)(int64_t n, Real value, Real* out);
  // y = x * scale + shift, by column.
  void (*scale_shift)(int m, int n, const Real* x, const Real* scale, const Real* shift, Real* y);
  // sum_g += sums of g; sum_gx += sums of g * (x - mean) * inv_std, by column.
  void (*norm_sums)(int m, int n, const Real* g, const Real* x, const Real* mean,
                    const Real* inv_std, Real* sum_g, Real* sum_gx);
  // out = scale * (g - mean_g - (x - mean) * inv_std * mean_gx), by column.
  void (*norm_backward)(int m, int n, const Real* g, const Real* x, const Real* mean,
                        const Real* inv_std, const Real* scale, const Real* mean_g,
                        const Real* mean_gx, Real* out, bool add);
  void (*relu)(int64_t n, const Real* x, Real* y);
  void (*relu_backward)(int64_t n, const Real* y, const Real* g, Real* out, bool add);
  // out = x * (keep_scale where the hash of (key, first_row + i, j) is below `keep`, else 0).
  void (*dropout)(int m, int n, uint64_t key, int64_t first_row, uint32_t keep, Real keep_scale,
                  const Real* x, Real* out, bool add);
  // Dice by column: y = x * (alpha + (1 - alpha) * p), p = sigmoid((x - mean) * inv_std).
  void (*dice)(int m, int n, const Real* x, const Real* mean, const Real* inv_std,
               const Real* alpha, Real* y);
  // sums (3, n) += sums of the gradient of (x - mean) * inv_std, of its product with
  // that, and of the gradient of alpha; g is the gradient of y.
  void (*dice_sums)(int m, int n, const Real* g, const Real* x, const Real* mean,
                    const Real* inv_std, const Real* alpha, Real* sums);
  // out = the gradient of x, given the first two sums over all rows, divided by their number.
  void (*dice_backward)(int m, int n, const Real* g, const Real* x, const Real* mean,
                        const Real* inv_std, const Real* alpha, const Real* mean_grad,
                        const Real* mean_grad_normal, Real* out, bool add);
  // One cell of a GRU (op_gru.cc), of h units: after (h) from gates and hidden (3 h).
  void (*gru_cell)(int h, const Real* gates, const Real* hidden, Real weight, const Real* before,
                   Real* after);
  // g (h) is the gradient of `after`. Fills those of gates and hidden (3 h), of `before`
  // as far as it is not by way of hidden, and g_weight (h), whose sum is the weight's.
  void (*gru_cell_backward)(int h, const Real* gates, const Real* hidden, Real weight,
                            const Real* before, const Real* g, Real* g_gates, Real* g_hidden,
                            Real* g_before, Real* g_weight);
  // The gradients of y = x0 * u + x, given g, which becomes u's; dx0 may be dx.
  void (*combine_backward)(int64_t n, const Real* x0, const Real* u, Real* g, Real* dx0,
                           bool add_x0, Real* dx, bool add_x);
  // y = a * b + c, and out = a * b.
  void (*multiply_add)(int64_t n, const Real* a, const Real* b, const Real* c, Real* y);
  void (*multiply)(int64_t n, const Real* a, const Real* b, Real* out, bool add);
  void (*copy)(int64_t n, const Real* x, Real* out, bool add);
  // out (m rows, `stride` apart, `dim` floats) = weighted sums of the segments at
  // `offset` of each row's ids; rows first .. first + m of the batch.
  void (*pool)(const SlotView& slot, int64_t first, int m, int offset, int dim, Real* out,
               int64_t stride);
  // grads (ids, width) = sums over each id's occurrences; offsets has ids + 1.
  void (*sum_occurrences)(const uint32_t* offsets, const OccurrenceView& occurrences, int ids,
                          const GradientRoute* routes, int width, Real* grads);
  void (*sigmoid)(int64_t n, const Real* x, Real* y);
  void (*sigmoid_backward)(int64_t n, const Real* y, const Real* g, Real* out, bool add);
  void (*tanh)(int64_t n, const Real* x, Real* y);
  void (*tanh_backward)(int64_t n, const Real* y, const Real* g, Real* out, bool add);
};

}  // namespace starling
