// The kernels of sequence_kernels.h, written once for every device, by the rules
// of kernels_on.h.
#pragma once

#include "dense_net/kernels_on.h"
#include "dense_net/sequence_kernels.h"

namespace starling {
namespace STARLING_ISA {

template <typename Run>
struct SequenceKernelsOn {
  static void Pool(Positions rows, int n, SequencePooling kind, const Real* x, Real* y) {
    Run::Matrix(rows.m, n, [=] STARLING_HOST_DEVICE(int i, int j) {
      int64_t p = rows.at[i] - rows.at[0];
      const int64_t end = rows.at[i + 1] - rows.at[0], length = end - p;
      if (kind == SequencePooling::kLast && length > 0) p = end - 1;
      Real value = p < end ? x[p * n + j] : 0;
      for (++p; p < end; ++p) {
        const Real next = x[p * n + j];
        if (kind != SequencePooling::kMax) {
          value += next;
        } else if (next > value || next != next) {  // A NaN must stay one.
          value = next;
        }
      }
      if (kind == SequencePooling::kMean && length > 0) value /= static_cast<Real>(length);
      y[int64_t{i} * n + j] = value;
    });
  }
  static void PoolBackward(Positions rows, int n, SequencePooling kind, const Real* x,
                           const Real* y, const Real* g, Real* out, bool add) {
    Run::Matrix(rows.m, n, [=] STARLING_HOST_DEVICE(int i, int j) {
      const int64_t begin = rows.at[i] - rows.at[0], end = rows.at[i + 1] - rows.at[0];
      const Real pooled = y[int64_t{i} * n + j];
      Real share = g[int64_t{i} * n + j];
      if (kind == SequencePooling::kMean) share /= static_cast<Real>(end - begin);
      int64_t chosen = -1;  // The one position that it goes to; -1: to all.
      if (kind == SequencePooling::kLast) chosen = end - 1;
      if (kind == SequencePooling::kMax) {
        for (chosen = begin; chosen + 1 < end && x[chosen * n + j] != pooled;) ++chosen;
      }
      for (int64_t p = begin; p < end; ++p) {
        Put(&out[p * n + j], chosen < 0 || chosen == p ? share : 0, add);
      }
    });
  }

  static void AttentionInput(Positions rows, int d, const Real* q, const Real* k, Real* out) {
    Run::Rows(rows.m, [=] STARLING_HOST_DEVICE(int i) {
      const Real* qi = q + int64_t{i} * d;
      for (int64_t p = rows.at[i] - rows.at[0]; p < rows.at[i + 1] - rows.at[0]; ++p) {
        const Real* kp = k + p * d;
        Real* to = out + p * 4 * d;
        for (int j = 0; j < d; ++j) {
          to[j] = qi[j];
          to[d + j] = kp[j];
          to[2 * d + j] = qi[j] - kp[j];
          to[3 * d + j] = qi[j] * kp[j];
        }
      }
    });
  }
  static void AttentionInputBackward(Positions rows, int d, const Real* q, const Real* k,
                                     const Real* g, Real* dq, bool add_q, Real* dk, bool add_k) {
    Run::Rows(rows.m, [=] STARLING_HOST_DEVICE(int i) {
      const Real* qi = q + int64_t{i} * d;
      Real* dqi = dq + int64_t{i} * d;
      for (int j = 0; dq != nullptr && !add_q && j < d; ++j) dqi[j] = 0;
      for (int64_t p = rows.at[i] - rows.at[0]; p < rows.at[i + 1] - rows.at[0]; ++p) {
        const Real *kp = k + p * d, *gp = g + p * 4 * d;
        for (int j = 0; dq != nullptr && j < d; ++j) {
          dqi[j] += gp[j] + gp[2 * d + j] + gp[3 * d + j] * kp[j];
        }
        for (int j = 0; dk != nullptr && j < d; ++j) {
          Put(&dk[p * d + j], gp[d + j] - gp[2 * d + j] + gp[3 * d + j] * qi[j], add_k);
        }
      }
    });
  }

  static void Softmax(Positions rows, const Real* x, Real* y) {
    Run::Rows(rows.m, [=] STARLING_HOST_DEVICE(int i) {
      const int64_t begin = rows.at[i] - rows.at[0], end = rows.at[i + 1] - rows.at[0];
      if (begin == end) return;
      Real largest = x[begin], sum = 0;
      for (int64_t p = begin + 1; p < end; ++p) largest = x[p] > largest ? x[p] : largest;
      for (int64_t p = begin; p < end; ++p) sum += y[p] = Exp(x[p] - largest);
      for (int64_t p = begin; p < end; ++p) y[p] /= sum;
    });
  }
  static void SoftmaxBackward(Positions rows, const Real* y, const Real* g, Real* out, bool add) {
    Run::Rows(rows.m, [=] STARLING_HOST_DEVICE(int i) {
      const int64_t begin = rows.at[i] - rows.at[0], end = rows.at[i + 1] - rows.at[0];
      Real dot = 0;
      for (int64_t p = begin; p < end; ++p) dot += g[p] * y[p];
      for (int64_t p = begin; p < end; ++p) Put(&out[p], y[p] * (g[p] - dot), add);
    });
  }

  static void WeightedSum(Positions rows, int n, const Real* w, const Real* x, Real* y) {
    Run::Rows(rows.m, [=] STARLING_HOST_DEVICE(int i) {
      Real* to = y + int64_t{i} * n;
      for (int j = 0; j < n; ++j) to[j] = 0;
      for (int64_t p = rows.at[i] - rows.at[0]; p < rows.at[i + 1] - rows.at[0]; ++p) {
        for (int j = 0; j < n; ++j) to[j] += w[p] * x[p * n + j];
      }
    });
  }
  static void WeightedSumBackward(Positions rows, int n, const Real* w, const Real* x,
                                  const Real* g, Real* dw, bool add_w, Real* dx, bool add_x) {
    Run::Rows(rows.m, [=] STARLING_HOST_DEVICE(int i) {
      const Real* gi = g + int64_t{i} * n;
      for (int64_t p = rows.at[i] - rows.at[0]; p < rows.at[i + 1] - rows.at[0]; ++p) {
        Real dot = 0;
        for (int j = 0; j < n; ++j) dot += gi[j] * x[p * n + j];
        if (dw != nullptr) Put(&dw[p], dot, add_w);
        for (int j = 0; dx != nullptr && j < n; ++j) Put(&dx[p * n + j], w[p] * gi[j], add_x);
      }
    });
  }

  static constexpr SequenceKernels kTable = {
      .pool = Pool,
      .pool_backward = PoolBackward,
      .attention_input = AttentionInput,
      .attention_input_backward = AttentionInputBackward,
      .softmax = Softmax,
      .softmax_backward = SoftmaxBackward,
      .weighted_sum = WeightedSum,
      .weighted_sum_backward = WeightedSumBackward,
  };
};

}  // namespace STARLING_ISA
}  // namespace starling
