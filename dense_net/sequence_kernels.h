// The inner loops of ops on sequences, beside kernels.h and by its rules. A null
// gradient is not wanted.
#pragma once

#include <cstdint>

#include "dense_net/real.h"

namespace starling {

// The positions of m rows, one after the other: row i has those from at[i] to
// at[i + 1], counted from at[0].
struct Positions {
  int m;
  const int64_t* at;
};

enum class SequencePooling { kSum, kMean, kMax, kLast };

struct SequenceKernels {
  // y (m, n) = the positions of each row of x (positions, n) pooled; zeros if it has none.
  void (*pool)(Positions rows, int n, SequencePooling kind, const Real* x, Real* y);
  void (*pool_backward)(Positions rows, int n, SequencePooling kind, const Real* x, const Real* y,
                        const Real* g, Real* out, bool add);
  // out (positions, 4 d) = [q, k, q - k, q * k]: q (m, d) is the row's, k (positions, d).
  void (*attention_input)(Positions rows, int d, const Real* q, const Real* k, Real* out);
  void (*attention_input_backward)(Positions rows, int d, const Real* q, const Real* k,
                                   const Real* g, Real* dq, bool add_q, Real* dk, bool add_k);
  // y (positions) = the softmax of x over each row's.
  void (*softmax)(Positions rows, const Real* x, Real* y);
  void (*softmax_backward)(Positions rows, const Real* y, const Real* g, Real* out, bool add);
  // y (m, n) = the sum of each row's x (positions, n) times w (positions).
  void (*weighted_sum)(Positions rows, int n, const Real* w, const Real* x, Real* y);
  void (*weighted_sum_backward)(Positions rows, int n, const Real* w, const Real* x, const Real* g,
                                Real* dw, bool add_w, Real* dx, bool add_x);
};

}  // namespace starling
