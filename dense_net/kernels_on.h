// The element and row kernels of kernels.h, written once for every device: what
// one element, one row or one step down a column computes is a functor for host
// and device. `Run` says how a device goes through them: ops_kernel.cc as
// loops, which the compiler vectorises; cuda_kernels.cu as threads of a GPU.
//
//   Run::Elements(n, fn)     fn(i) for i in [0, n), in any order
//   Run::Matrix(m, n, fn)    fn(i, j) for all rows i and columns j, in any order
//   Run::Columns(m, n, fn)   as Matrix; the rows of one column in order
//   Run::Rows(m, fn)         fn(i) for all rows
//   Run::Rows(m, floats, scratch, fn)   fn(i, its own `floats` of scratch)
//
// Everything is in the namespace of the instruction set, so that no function
// compiled for one stands in for another's. Multiply-adds are not contracted:
// a vector body and its remainder, and all devices, round alike.
#pragma once

#include <math.h>
#include <string.h>

#include "base/prefetch.h"
#include "dense_net/kernels.h"

#ifdef __CUDACC__
#define STARLING_HOST_DEVICE __host__ __device__
#else
#define STARLING_HOST_DEVICE
#endif

namespace starling {
namespace STARLING_ISA {

STARLING_HOST_DEVICE inline void Put(Real* out, Real value, bool add) {
  *out = add ? *out + value : value;
}
STARLING_HOST_DEVICE inline float Exp(float x) { return expf(x); }
STARLING_HOST_DEVICE inline double Exp(double x) { return exp(x); }
STARLING_HOST_DEVICE inline float Tanh(float x) { return tanhf(x); }
STARLING_HOST_DEVICE inline double Tanh(double x) { return tanh(x); }

// 2^n times a polynomial of the rest, after Cephes: within 2 units of the last
// place, NaN stays NaN, and it vectorises, which expf does not.
STARLING_HOST_DEVICE inline float QuickExp(float x) {
  x = x < -87.3f ? -87.3f : x;
  x = x > 88.3f ? 88.3f : x;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23
  const float n = (x * 1.44269504f + kRound) - kRound;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const int32_t bits = (static_cast<int32_t>(n) + 127) << 23;
  float power;
  memcpy(&power, &bits, sizeof(power));
  return p * power;
}
STARLING_HOST_DEVICE inline double QuickExp(double x) { return exp(x); }
STARLING_HOST_DEVICE inline Real Logistic(Real x) { return 1 / (1 + QuickExp(-x)); }
STARLING_HOST_DEVICE inline Real QuickTanh(Real x) { return 1 - 2 / (QuickExp(2 * x) + 1); }

STARLING_HOST_DEVICE inline uint64_t MixKey(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}
// Murmur3's finaliser over column and row key: vectorises, five cheap steps.
STARLING_HOST_DEVICE inline uint32_t Hash(uint32_t row_key, uint32_t row_key2, uint32_t column) {
  uint32_t h = (column * 0x9E3779B1u) ^ row_key;
  h ^= h >> 16;
  h *= 0x85EBCA6Bu;
  h ^= (h >> 13) ^ row_key2;
  h *= 0xC2B2AE35u;
  return h ^ (h >> 16);
}
// Signed, since AVX2 compares no unsigned integers: both sides are shifted by 2^31.
STARLING_HOST_DEVICE inline Real DropoutScale(uint32_t hash, uint32_t keep, Real keep_scale) {
  const int32_t h = static_cast<int32_t>(hash ^ 0x80000000u);
  return h < static_cast<int32_t>(keep ^ 0x80000000u) ? keep_scale : 0;
}
// sum (dim) = the sum of a row's vectors.
STARLING_HOST_DEVICE inline void SumSlots(int slots, int dim, const Real* x, Real* sum) {
  for (int d = 0; d < dim; ++d) sum[d] = 0;
  for (int s = 0; s < slots; ++s)
    for (int d = 0; d < dim; ++d) sum[d] += x[s * dim + d];
}

// Rows that are read one after the other from anywhere: asked for so many ahead.
inline constexpr uint32_t kAhead = 28;
STARLING_HOST_DEVICE inline void Prefetch(const Real* row, int dim) {
#ifndef __CUDA_ARCH__
  PrefetchLine(row);
  PrefetchLine(row + dim - 1);
#endif
}

template <typename Run>
struct KernelsOn {
  static void AddRows(int m, int n, const Real* x, const Real* scale, Real* out) {
    Run::Columns(m, n, [=] STARLING_HOST_DEVICE(int i, int j) {
      out[j] += (scale == nullptr ? 1 : scale[i]) * x[int64_t{i} * n + j];
    });
  }

  static void ColumnMoments(int m, int n, const Real* x, Real* mean, Real* m2) {
    Fill(n, 0, mean);
    Fill(n, 0, m2);
    AddRows(m, n, x, nullptr, mean);
    Run::Elements(n, [=] STARLING_HOST_DEVICE(int64_t j) { mean[j] /= static_cast<Real>(m); });
    Run::Columns(m, n, [=] STARLING_HOST_DEVICE(int i, int j) {
      const Real away = x[int64_t{i} * n + j] - mean[j];
      m2[j] += away * away;
    });
  }

  static void Spread(int m, int n, const Real* x, Real* out) {
    Run::Matrix(m, n, [=] STARLING_HOST_DEVICE(int i, int j) { out[int64_t{i} * n + j] = x[j]; });
  }
  static void Fill(int64_t n, Real value, Real* out) {
    Run::Elements(n, [=] STARLING_HOST_DEVICE(int64_t i) { out[i] = value; });
  }

  static void ScaleShift(int m, int n, const Real* x, const Real* scale, const Real* shift,
                         Real* y) {
    Run::Matrix(m, n, [=] STARLING_HOST_DEVICE(int i, int j) {
      y[int64_t{i} * n + j] = x[int64_t{i} * n + j] * scale[j] + shift[j];
    });
  }

  static void NormSums(int m, int n, const Real* g, const Real* x, const Real* mean,
                       const Real* inv_std, Real* sum_g, Real* sum_gx) {
    Run::Columns(m, n, [=] STARLING_HOST_DEVICE(int i, int j) {
      const int64_t at = int64_t{i} * n + j;
      sum_g[j] += g[at];
      sum_gx[j] += g[at] * ((x[at] - mean[j]) * inv_std[j]);
    });
  }

  static void NormBackward(int m, int n, const Real* g, const Real* x, const Real* mean,
                           const Real* inv_std, const Real* scale, const Real* mean_g,
                           const Real* mean_gx, Real* out, bool add) {
    Run::Matrix(m, n, [=] STARLING_HOST_DEVICE(int i, int j) {
      const int64_t at = int64_t{i} * n + j;
      const Real normal = (x[at] - mean[j]) * inv_std[j];
      Put(&out[at], scale[j] * (g[at] - mean_g[j] - normal * mean_gx[j]), add);
    });
  }

  // Written so that NaN stays NaN: it must reach the loss to be reported.
  static void Relu(int64_t n, const Real* x, Real* y) {
    Run::Elements(n, [=] STARLING_HOST_DEVICE(int64_t i) { y[i] = x[i] < 0 ? 0 : x[i]; });
  }
  static void ReluBackward(int64_t n, const Real* y, const Real* g, Real* out, bool add) {
    Run::Elements(n,
                  [=] STARLING_HOST_DEVICE(int64_t i) { Put(&out[i], y[i] > 0 ? g[i] : 0, add); });
  }
  static void Sigmoid(int64_t n, const Real* x, Real* y) {
    Run::Elements(n, [=] STARLING_HOST_DEVICE(int64_t i) { y[i] = 1 / (1 + Exp(-x[i])); });
  }
  static void SigmoidBackward(int64_t n, const Real* y, const Real* g, Real* out, bool add) {
    Run::Elements(
        n, [=] STARLING_HOST_DEVICE(int64_t i) { Put(&out[i], g[i] * (y[i] * (1 - y[i])), add); });
  }
  static void TanhForward(int64_t n, const Real* x, Real* y) {
    Run::Elements(n, [=] STARLING_HOST_DEVICE(int64_t i) { y[i] = Tanh(x[i]); });
  }
  static void TanhBackward(int64_t n, const Real* y, const Real* g, Real* out, bool add) {
    Run::Elements(
        n, [=] STARLING_HOST_DEVICE(int64_t i) { Put(&out[i], g[i] * (1 - y[i] * y[i]), add); });
  }

  static void Dropout(int m, int n, uint64_t key, int64_t first_row, uint32_t keep, Real keep_scale,
                      const Real* x, Real* out, bool add) {
    Run::Matrix(m, n, [=] STARLING_HOST_DEVICE(int i, int j) {
      const uint64_t row =
          MixKey(key + static_cast<uint64_t>(first_row + i) * 0x9E3779B97F4A7C15ull);
      const uint32_t low = static_cast<uint32_t>(row), high = static_cast<uint32_t>(row >> 32);
      const int64_t at = int64_t{i} * n + j;
      Put(&out[at], x[at] * DropoutScale(Hash(low, high, j), keep, keep_scale), add);
    });
  }

  static void Dice(int m, int n, const Real* x, const Real* mean, const Real* inv_std,
                   const Real* alpha, Real* y) {
    Run::Matrix(m, n, [=] STARLING_HOST_DEVICE(int i, int j) {
      const int64_t at = int64_t{i} * n + j;
      const Real p = Logistic((x[at] - mean[j]) * inv_std[j]);
      y[at] = x[at] * (alpha[j] + (1 - alpha[j]) * p);
    });
  }
  static void DiceSums(int m, int n, const Real* g, const Real* x, const Real* mean,
                       const Real* inv_std, const Real* alpha, Real* sums) {
    Run::Columns(m, n, [=] STARLING_HOST_DEVICE(int i, int j) {
      const int64_t at = int64_t{i} * n + j;
      const Real normal = (x[at] - mean[j]) * inv_std[j], p = Logistic(normal);
      const Real e = g[at] * x[at] * (1 - alpha[j]) * p * (1 - p);
      sums[j] += e;
      sums[n + j] += e * normal;
      sums[2 * n + j] += g[at] * x[at] * (1 - p);
    });
  }
  static void DiceBackward(int m, int n, const Real* g, const Real* x, const Real* mean,
                           const Real* inv_std, const Real* alpha, const Real* mean_grad,
                           const Real* mean_grad_normal, Real* out, bool add) {
    Run::Matrix(m, n, [=] STARLING_HOST_DEVICE(int i, int j) {
      const int64_t at = int64_t{i} * n + j;
      const Real normal = (x[at] - mean[j]) * inv_std[j], p = Logistic(normal);
      const Real e = g[at] * x[at] * (1 - alpha[j]) * p * (1 - p);
      Put(&out[at],
          g[at] * (alpha[j] + (1 - alpha[j]) * p) +
              inv_std[j] * (e - mean_grad[j] - normal * mean_grad_normal[j]),
          add);
    });
  }

  static void GruCell(int h, const Real* gates, const Real* hidden, Real weight, const Real* before,
                      Real* after) {
    Run::Elements(h, [=] STARLING_HOST_DEVICE(int64_t j) {
      const Real r = Logistic(gates[j] + hidden[j]);
      const Real u = weight * Logistic(gates[h + j] + hidden[h + j]);
      const Real n = QuickTanh(gates[2 * h + j] + r * hidden[2 * h + j]);
      after[j] = (1 - u) * before[j] + u * n;
    });
  }
  static void GruCellBackward(int h, const Real* gates, const Real* hidden, Real weight,
                              const Real* before, const Real* g, Real* g_gates, Real* g_hidden,
                              Real* g_before, Real* g_weight) {
    Run::Elements(h, [=] STARLING_HOST_DEVICE(int64_t j) {
      const Real r = Logistic(gates[j] + hidden[j]);
      const Real u = Logistic(gates[h + j] + hidden[h + j]);
      const Real n = QuickTanh(gates[2 * h + j] + r * hidden[2 * h + j]);
      const Real g_update = g[j] * (n - before[j]);
      const Real g_n = g[j] * weight * u * (1 - n * n);
      g_weight[j] = g_update * u;
      g_before[j] = g[j] * (1 - weight * u);
      g_gates[j] = g_hidden[j] = g_n * hidden[2 * h + j] * r * (1 - r);
      g_gates[h + j] = g_hidden[h + j] = g_update * weight * u * (1 - u);
      g_gates[2 * h + j] = g_n;
      g_hidden[2 * h + j] = g_n * r;
    });
  }

  static void MultiplyAdd(int64_t n, const Real* a, const Real* b, const Real* c, Real* y) {
    Run::Elements(n, [=] STARLING_HOST_DEVICE(int64_t i) { y[i] = a[i] * b[i] + c[i]; });
  }
  static void CombineBackward(int64_t n, const Real* x0, const Real* u, Real* g, Real* dx0,
                              bool add_x0, Real* dx, bool add_x) {
    if (dx == dx0) {  // Of its own, since loops over what may be one array do not vectorise.
      Run::Elements(n, [=] STARLING_HOST_DEVICE(int64_t i) {
        const Real product = g[i] * u[i];
        dx0[i] = (add_x0 ? dx0[i] + product : product) + g[i];
        g[i] *= x0[i];
      });
      return;
    }
    Run::Elements(n, [=] STARLING_HOST_DEVICE(int64_t i) {
      const Real at = g[i];
      Put(&dx0[i], at * u[i], add_x0);
      Put(&dx[i], at, add_x);
      g[i] = at * x0[i];
    });
  }
  static void Multiply(int64_t n, const Real* a, const Real* b, Real* out, bool add) {
    Run::Elements(n, [=] STARLING_HOST_DEVICE(int64_t i) { Put(&out[i], a[i] * b[i], add); });
  }
  static void Copy(int64_t n, const Real* x, Real* out, bool add) {
    Run::Elements(n, [=] STARLING_HOST_DEVICE(int64_t i) { Put(&out[i], x[i], add); });
  }

  static void Pool(const SlotView& slot, int64_t first, int m, int offset, int dim, Real* out,
                   int64_t stride) {
    WithKnown(dim, [&](auto n) { PoolOf(n, slot, first, m, offset, dim, out, stride); });
  }

  static void SumOccurrences(const uint32_t* offsets, const OccurrenceView& occurrences, int ids,
                             const GradientRoute* routes, int width, Real* grads) {
    WithKnown(width, [&](auto known) {
      SumOccurrencesOf(known, offsets, occurrences, ids, routes, width, grads);
    });
  }

  // For the functions above; public, since nvcc takes kernels of such functions alone.
  // A width that is known when this is compiled, so that sums stay in registers; 0: it is not.
  template <int n>
  struct Known {
    static constexpr int value = n;
  };
  template <typename Fn>
  static void WithKnown(int width, const Fn& fn) {
    if (width == 8) return fn(Known<8>());
    if (width == 16) return fn(Known<16>());
    if (width == 32) return fn(Known<32>());
    fn(Known<0>());
  }
  template <int n>
  static void SumOccurrencesOf(Known<n> known, const uint32_t* offsets,
                               const OccurrenceView& occurrences, int ids,
                               const GradientRoute* routes, int width, Real* grads) {
    const uint32_t end = Run::kRowsInOrder ? offsets[ids] : 0;  // Where the host may read it.
    Run::Rows(ids, [=] STARLING_HOST_DEVICE(int u) {
      Real* grad = grads + int64_t{u} * width;
      if (!SumOf(known, occurrences, offsets[u], offsets[u + 1], end, routes, grad)) {
        SumParts(occurrences, offsets[u], offsets[u + 1], end, routes, width, grad);
      }
    });
  }
  template <int n>
  static void PoolOf(Known<n>, const SlotView& slot, int64_t first, int m, int offset, int dim,
                     Real* out, int64_t stride) {
    if (m == 0) return;
    uint32_t end = 0;  // The host reads it where it may.
    if (Run::kRowsInOrder)
      end =
          slot.offsets[(slot.entry_of_row ? slot.entry_of_row[first + m - 1] : first + m - 1) + 1];
    Run::Rows(m, [=] STARLING_HOST_DEVICE(int i) {
      Real* to = out + i * stride;
      uint32_t entry = static_cast<uint32_t>(first + i);
      if (slot.entry_of_row != nullptr) {
        entry = slot.entry_of_row[first + i];
        if (Run::kRowsInOrder && i > 0 && entry == slot.entry_of_row[first + i - 1]) {
          for (int d = 0; d < dim; ++d) to[d] = to[d - stride];
          return;
        }
      }
      Real sum[n > 0 ? n : 1] = {};
      for (int d = 0; n == 0 && d < dim; ++d) to[d] = 0;
      for (uint32_t v = slot.offsets[entry]; v < slot.offsets[entry + 1]; ++v) {
        if (Run::kRowsInOrder && v + kAhead < end) {
          Prefetch(slot.rows + slot.index[v + kAhead] * slot.width + offset, dim);
        }
        const Real* row = slot.rows + slot.index[v] * slot.width + offset;
        const Real weight = slot.weights == nullptr ? 1 : slot.weights[v];
        for (int d = 0; d < n; ++d) sum[d] += weight * row[d];
        for (int d = 0; n == 0 && d < dim; ++d) to[d] += weight * row[d];
      }
      for (int d = 0; d < n; ++d) to[d] = sum[d];
    });
  }

  STARLING_HOST_DEVICE static Occurrence OccurrenceAt(const OccurrenceView& in, uint32_t at) {
    const uint32_t code = in.codes[at];
    return {code >> in.entry_bits, code & ((1u << in.entry_bits) - 1),
            in.weights == nullptr ? 1.0f : in.weights[at]};
  }
  STARLING_HOST_DEVICE static const Real* GradientOf(const Occurrence& o,
                                                     const GradientRoute& route) {
    const uint32_t row = route.row_of_entry == nullptr ? o.entry : route.row_of_entry[o.entry];
    return route.embedding + row * route.embedding_stride;
  }
  STARLING_HOST_DEVICE static void PrefetchGradient(const OccurrenceView& occurrences, uint32_t at,
                                                    uint32_t end, const GradientRoute* routes) {
    if (!Run::kRowsInOrder || at + kAhead >= end) return;
    const Occurrence next = OccurrenceAt(occurrences, at + kAhead);
    const GradientRoute& route = routes[next.slot];
    if (route.embedding != nullptr) Prefetch(GradientOf(next, route), route.embedding_dim);
  }
  // Of an id whose occurrences all have gradients of a whole row of n; else false.
  template <int n>
  STARLING_HOST_DEVICE static bool SumOf(Known<n>, const OccurrenceView& occurrences,
                                         uint32_t begin, uint32_t id_end, uint32_t end,
                                         const GradientRoute* routes, Real* grad) {
    if (n == 0) return false;
    Real sum[n > 0 ? n : 1] = {};
    for (uint32_t at = begin; at < id_end; ++at) {
      PrefetchGradient(occurrences, at, end, routes);
      const Occurrence o = OccurrenceAt(occurrences, at);
      const GradientRoute& route = routes[o.slot];
      if (route.embedding_dim != n) return false;
      const Real* from = GradientOf(o, route);
      for (int d = 0; d < n; ++d) sum[d] += o.weight * from[d];
    }
    for (int d = 0; d < n; ++d) grad[d] = sum[d];
    return true;
  }
  STARLING_HOST_DEVICE static void SumParts(const OccurrenceView& occurrences, uint32_t begin,
                                            uint32_t id_end, uint32_t end,
                                            const GradientRoute* routes, int width, Real* grad) {
    for (int d = 0; d < width; ++d) grad[d] = 0;
    for (uint32_t at = begin; at < id_end; ++at) {
      PrefetchGradient(occurrences, at, end, routes);
      const Occurrence o = OccurrenceAt(occurrences, at);
      const GradientRoute& route = routes[o.slot];
      if (route.embedding != nullptr) {
        const Real* from = GradientOf(o, route);
        Real* to = grad + route.embedding_offset;
        for (int d = 0; d < route.embedding_dim; ++d) to[d] += o.weight * from[d];
      }
      if (route.linear != nullptr) {
        const uint32_t row = route.row_of_entry == nullptr ? o.entry : route.row_of_entry[o.entry];
        grad[route.linear_offset] += o.weight * route.linear[row];
      }
    }
  }

  static constexpr Kernels kTable = {
      .add_rows = AddRows,
      .column_moments = ColumnMoments,
      .spread = Spread,
      .fill = Fill,
      .scale_shift = ScaleShift,
      .norm_sums = NormSums,
      .norm_backward = NormBackward,
      .relu = Relu,
      .relu_backward = ReluBackward,
      .dropout = Dropout,
      .dice = Dice,
      .dice_sums = DiceSums,
      .dice_backward = DiceBackward,
      .gru_cell = GruCell,
      .gru_cell_backward = GruCellBackward,
      .combine_backward = CombineBackward,
      .multiply_add = MultiplyAdd,
      .multiply = Multiply,
      .copy = Copy,
      .pool = Pool,
      .sum_occurrences = SumOccurrences,
      .sigmoid = Sigmoid,
      .sigmoid_backward = SigmoidBackward,
      .tanh = TanhForward,
      .tanh_backward = TanhBackward,
  };
};

}  // namespace STARLING_ISA
}  // namespace starling
