// The kernels of field_kernels.h, written once for every device, by the rules
// of kernels_on.h.
#pragma once

#include "dense_net/field_kernels.h"
#include "dense_net/kernels_on.h"

namespace starling {
namespace STARLING_ISA {

STARLING_HOST_DEVICE inline float Erfc(float x) { return erfcf(x); }
STARLING_HOST_DEVICE inline double Erfc(double x) { return erfc(x); }
// The share of a normal distribution below x.
STARLING_HOST_DEVICE inline Real NormalBelow(Real x) {
  return Real{0.5} * Erfc(x * static_cast<Real>(-0.70710678118654752440));
}

// The sum of fn(0 .. n - 1) in eight chains, which vectorise.
template <typename Fn>
STARLING_HOST_DEVICE inline Real ChainSum(int n, const Fn& fn) {
  Real chains[8] = {};
  int j = 0;
  for (; j + 8 <= n; j += 8)
    for (int v = 0; v < 8; ++v) chains[v] += fn(j + v);
  Real total = 0;
  for (int v = 0; v < 8; ++v) total += chains[v];
  for (; j < n; ++j) total += fn(j);
  return total;
}
STARLING_HOST_DEVICE inline Real DotOf(int n, const Real* a, const Real* b) {
  return ChainSum(n, [=](int j) { return a[j] * b[j]; });
}

struct RowMoments {
  Real mean, inv_std;
};
STARLING_HOST_DEVICE inline RowMoments MomentsOf(int n, const Real* x) {
  const Real mean = ChainSum(n, [=](int j) { return x[j]; }) / n;
  const Real variance = ChainSum(n, [=](int j) { return (x[j] - mean) * (x[j] - mean); }) / n;
  return {mean, static_cast<Real>(1 / sqrt(variance + kLayerNormEps))};
}
STARLING_HOST_DEVICE inline Real InverseNorm(int n, const Real* x) {
  return static_cast<Real>(1 / sqrt(DotOf(n, x, x) + kNormalizeSquareMin));
}

template <typename Run>
struct FieldKernelsOn {
  template <int n>
  using Known = typename KernelsOn<Run>::template Known<n>;

  static void FmSums(int m, int slots, int dim, RowsIn x, Real* sums, bool add) {
    KernelsOn<Run>::WithKnown(dim, [&](auto n) { FmSumsOf(n, m, slots, dim, x, sums, add); });
  }
  template <int n>
  static void FmSumsOf(Known<n>, int m, int slots, int dim, RowsIn x, Real* sums, bool add) {
    Run::Rows(m, [=] STARLING_HOST_DEVICE(int i) {
      const Real* row = x.data + i * x.stride;
      Real* to = sums + int64_t{i} * 2 * dim;
      AddUp(Known<n>(), slots, dim, add, to, [=](int at) { return row[at]; });
      AddUp(Known<n>(), slots, dim, add, to + dim, [=](int at) { return row[at] * row[at]; });
    });
  }
  // to (dim) = the sum of fn(at) over a row's vectors: in registers, if n is not 0.
  template <int n, typename Fn>
  STARLING_HOST_DEVICE static void AddUp(Known<n>, int slots, int dim, bool add, Real* to,
                                         const Fn& fn) {
    Real sum[n > 0 ? n : 1] = {};
    for (int d = 0; d < n && add; ++d) sum[d] = to[d];
    for (int d = 0; n == 0 && !add && d < dim; ++d) to[d] = 0;
    for (int s = 0; s < slots; ++s) {
      for (int d = 0; d < n; ++d) sum[d] += fn(s * n + d);
      for (int d = 0; n == 0 && d < dim; ++d) to[d] += fn(s * dim + d);
    }
    for (int d = 0; d < n; ++d) to[d] = sum[d];
  }
  static void Fm(int m, int dim, const Real* sums, Real* y) {
    Run::Rows(m, [=] STARLING_HOST_DEVICE(int i) {
      const Real *sum = sums + int64_t{i} * 2 * dim, *squares = sum + dim;
      y[i] = Real{0.5} * ChainSum(dim, [=](int d) { return sum[d] * sum[d] - squares[d]; });
    });
  }
  static void FmBackward(int m, int slots, int dim, RowsIn x, const Real* sums, const Real* g,
                         RowsOut out, bool add) {
    KernelsOn<Run>::WithKnown(
        dim, [&](auto n) { FmBackwardOf(n, m, slots, dim, x, sums, g, out, add); });
  }
  template <int n>
  static void FmBackwardOf(Known<n>, int m, int slots, int known_later, RowsIn x, const Real* sums,
                           const Real* g, RowsOut out, bool add) {
    const int dim = n > 0 ? n : known_later;
    Run::Rows(m, [=] STARLING_HOST_DEVICE(int i) {
      const Real *row = x.data + i * x.stride, *sum = sums + int64_t{i} * 2 * dim;
      const Real gi = g[i];
      Real* to = out.data + i * out.stride;
      for (int s = 0; s < slots; ++s, row += dim, to += dim) {
        Real grad[n > 0 ? n : 1];  // Kept apart from `to`, so that these loops vectorise.
        for (int d = 0; d < n; ++d) grad[d] = gi * (sum[d] - row[d]);
        for (int d = 0; d < n; ++d) Put(&to[d], grad[d], add);
        for (int d = 0; n == 0 && d < dim; ++d) Put(&to[d], gi * (sum[d] - row[d]), add);
      }
    });
  }
  static void FmSharedBackward(int m, int slots, int dim, RowsIn x, const Real* sums,
                               const uint32_t* to, uint32_t none, RowsOut out) {
    Run::Rows(m, [=] STARLING_HOST_DEVICE(int i) {
      if (to[i] == none) return;
      const Real *row = x.data + i * x.stride, *of = sums + int64_t{i} * 2 * dim;
      Real* __restrict at = out.data + to[i] * out.stride;
      for (int s = 0; s < slots; ++s, row += dim, at += dim)
        for (int d = 0; d < dim; ++d) at[d] += of[d] - of[dim] * row[d];
    });
  }

  static void BiInteraction(int m, int slots, int dim, const Real* x, Real* scratch, Real* y) {
    Run::Rows(m, dim, scratch, [=] STARLING_HOST_DEVICE(int i, Real* sum) {
      const Real* row = x + int64_t{i} * slots * dim;
      Real* to = y + int64_t{i} * dim;
      SumSlots(slots, dim, row, sum);
      for (int d = 0; d < dim; ++d) to[d] = 0;
      for (int s = 0; s < slots; ++s)
        for (int d = 0; d < dim; ++d) to[d] += row[s * dim + d] * row[s * dim + d];
      for (int d = 0; d < dim; ++d) to[d] = Real{0.5} * (sum[d] * sum[d] - to[d]);
    });
  }
  static void BiInteractionBackward(int m, int slots, int dim, const Real* x, const Real* g,
                                    Real* scratch, Real* out, bool add) {
    Run::Rows(m, dim, scratch, [=] STARLING_HOST_DEVICE(int i, Real* sum) {
      const Real *row = x + int64_t{i} * slots * dim, *gi = g + int64_t{i} * dim;
      Real* to = out + int64_t{i} * slots * dim;
      SumSlots(slots, dim, row, sum);
      for (int s = 0; s < slots; ++s)
        for (int d = 0; d < dim; ++d)
          Put(&to[s * dim + d], gi[d] * (sum[d] - row[s * dim + d]), add);
    });
  }

  static void Cross(int m, int n, const Real* x0, const Real* u, const Real* bias, const Real* x,
                    Real* y) {
    Run::Matrix(m, n, [=] STARLING_HOST_DEVICE(int i, int j) {
      const int64_t at = int64_t{i} * n + j;
      y[at] = x0[at] * u[i] + bias[j] + x[at];
    });
  }
  static void ScaleRows(int m, int n, Real factor, RowsIn x, RowsIn scale, RowsOut out, bool add) {
    Run::Matrix(m, n, [=] STARLING_HOST_DEVICE(int i, int j) {
      Put(&out.data[i * out.stride + j],
          factor * scale.data[i * scale.stride] * x.data[i * x.stride + j], add);
    });
  }
  static void RowDots(int m, int n, Real factor, RowsIn a, RowsIn b, RowsOut out, bool add) {
    Run::Rows(m, [=] STARLING_HOST_DEVICE(int i) {
      Put(&out.data[i * out.stride],
          factor * DotOf(n, a.data + i * a.stride, b.data + i * b.stride), add);
    });
  }

  static void Outer(int m, int n, int n2, const Real* x, const Real* y, Real* out) {
    Run::Matrix(m * n, n2, [=] STARLING_HOST_DEVICE(int i, int k) {
      out[int64_t{i} * n2 + k] = x[i] * y[int64_t{i / n} * n2 + k];
    });
  }
  static void OuterBackward(int m, int n, int n2, const Real* x, const Real* y, const Real* g,
                            Real* dx, bool add_x, Real* dy, bool add_y) {
    Run::Rows(m, [=] STARLING_HOST_DEVICE(int i) {
      const Real *xi = x + int64_t{i} * n, *yi = y + int64_t{i} * n2;
      const Real* gi = g + int64_t{i} * n * n2;
      Real *dxi = dx + int64_t{i} * n, *dyi = dy + int64_t{i} * n2;
      // One after the other: dx may be dy.
      for (int j = 0; j < n; ++j) Put(&dxi[j], DotOf(n2, gi + j * n2, yi), add_x);
      for (int k = 0; !add_y && k < n2; ++k) dyi[k] = 0;
      for (int j = 0; j < n; ++j) {
        const Real xj = xi[j];
        for (int k = 0; k < n2; ++k) dyi[k] += gi[j * n2 + k] * xj;
      }
    });
  }

  static void Transpose(int m, int n, int n2, const Real* x, Real* out, bool add) {
    Run::Rows(m, [=] STARLING_HOST_DEVICE(int i) {
      const Real* from = x + int64_t{i} * n * n2;
      Real* to = out + int64_t{i} * n * n2;
      for (int j = 0; j < n; ++j)
        for (int k = 0; k < n2; ++k) Put(&to[k * n + j], from[j * n2 + k], add);
    });
  }

  static void LayerNorm(int m, int n, const Real* x, const Real* scale, const Real* shift,
                        Real* y) {
    Run::Rows(m, [=] STARLING_HOST_DEVICE(int i) {
      const Real* row = x + int64_t{i} * n;
      Real* to = y + int64_t{i} * n;
      const RowMoments of = MomentsOf(n, row);
      for (int j = 0; j < n; ++j) to[j] = (row[j] - of.mean) * of.inv_std * scale[j] + shift[j];
    });
  }
  static void LayerNormBackward(int m, int n, const Real* x, const Real* scale, const Real* g,
                                Real* scratch, Real* scale_grad, Real* out, bool add) {
    Run::Rows(m, [=] STARLING_HOST_DEVICE(int i) {
      const RowMoments of = MomentsOf(n, x + int64_t{i} * n);
      scratch[2 * i] = of.mean;
      scratch[2 * i + 1] = of.inv_std;
    });
    Run::Columns(m, n, [=] STARLING_HOST_DEVICE(int i, int j) {
      const int64_t at = int64_t{i} * n + j;
      scale_grad[j] += g[at] * ((x[at] - scratch[2 * i]) * scratch[2 * i + 1]);
    });
    Run::Rows(m, [=] STARLING_HOST_DEVICE(int i) {
      const Real *xi = x + int64_t{i} * n, *gi = g + int64_t{i} * n;
      const Real mean_x = scratch[2 * i], inv_std = scratch[2 * i + 1];
      const Real mean = ChainSum(n, [=](int j) { return gi[j] * scale[j]; }) / n;
      const Real slope =
          ChainSum(n, [=](int j) { return gi[j] * scale[j] * ((xi[j] - mean_x) * inv_std); }) / n;
      Real* to = out + int64_t{i} * n;
      for (int j = 0; j < n; ++j) {
        const Real normal = (xi[j] - mean_x) * inv_std;
        Put(&to[j], inv_std * (gi[j] * scale[j] - mean - normal * slope), add);
      }
    });
  }

  static void Normalize(int m, int n, const Real* x, Real* y) {
    Run::Rows(m, [=] STARLING_HOST_DEVICE(int i) {
      const Real* row = x + int64_t{i} * n;
      const Real scale = InverseNorm(n, row);
      for (int j = 0; j < n; ++j) y[int64_t{i} * n + j] = scale * row[j];
    });
  }
  // scale (g - y (y . g)).
  static void NormalizeBackward(int m, int n, const Real* x, const Real* y, const Real* g,
                                Real* out, bool add) {
    Run::Rows(m, [=] STARLING_HOST_DEVICE(int i) {
      const Real *yi = y + int64_t{i} * n, *gi = g + int64_t{i} * n;
      const Real scale = InverseNorm(n, x + int64_t{i} * n), dot = DotOf(n, yi, gi);
      for (int j = 0; j < n; ++j) Put(&out[int64_t{i} * n + j], scale * (gi[j] - yi[j] * dot), add);
    });
  }

  static void Softmax(int m, int n, Real scale, const Real* x, Real* y) {
    Run::Rows(m, [=] STARLING_HOST_DEVICE(int i) {
      const Real* row = x + int64_t{i} * n;
      Real* to = y + int64_t{i} * n;
      Real most = row[0], sum = 0;
      for (int j = 1; j < n; ++j) most = row[j] > most ? row[j] : most;
      for (int j = 0; j < n; ++j) {
        to[j] = Exp((row[j] - most) * scale);
        sum += to[j];
      }
      for (int j = 0; j < n; ++j) to[j] /= sum;
    });
  }
  // scale y (g - y . g): a function of the output, so the input may be gone.
  static void SoftmaxBackward(int m, int n, Real scale, const Real* y, const Real* g, Real* out,
                              bool add) {
    Run::Rows(m, [=] STARLING_HOST_DEVICE(int i) {
      const Real *yi = y + int64_t{i} * n, *gi = g + int64_t{i} * n;
      const Real dot = DotOf(n, yi, gi);
      for (int j = 0; j < n; ++j) {
        Put(&out[int64_t{i} * n + j], yi[j] * (gi[j] - dot) * scale, add);
      }
    });
  }

  static void ScaledMultiply(int64_t n, Real scale, const Real* a, const Real* b, Real* out,
                             bool add) {
    Run::Elements(n,
                  [=] STARLING_HOST_DEVICE(int64_t i) { Put(&out[i], scale * a[i] * b[i], add); });
  }
  static void CopyRows(int m, int n, RowsIn x, RowsOut out, bool add) {
    Run::Matrix(m, n, [=] STARLING_HOST_DEVICE(int i, int j) {
      Put(&out.data[i * out.stride + j], x.data[i * x.stride + j], add);
    });
  }
  static void AddGathered(int m, int n, int sources, const GatheredRows* from, Real* out) {
    Run::Rows(m, [=] STARLING_HOST_DEVICE(int i) {
      Real* __restrict to = out + int64_t{i} * n;
      const auto row = [&](int s) { return from[s].rows + int64_t{from[s].at[i]} * n; };
      int s = 0;
      for (; s + 4 <= sources; s += 4) {
        const Real *a = row(s), *b = row(s + 1), *c = row(s + 2), *d = row(s + 3);
        for (int j = 0; j < n; ++j) to[j] = to[j] + a[j] + b[j] + c[j] + d[j];
      }
      for (; s < sources; ++s) {
        const Real* a = row(s);
        for (int j = 0; j < n; ++j) to[j] += a[j];
      }
    });
  }
  static void ScatterAdd(int m, int n, const uint32_t* to, RowsIn x, RowsOut out) {
    Run::Columns(m, n, [=] STARLING_HOST_DEVICE(int i, int j) {
      out.data[to[i] * out.stride + j] += x.data[i * x.stride + j];
    });
  }
  static void SumParts(int m, int parts, int n, const Real* x, Real* out) {
    Run::Rows(m, [=] STARLING_HOST_DEVICE(int i) {
      SumSlots(parts, n, x + int64_t{i} * parts * n, out + int64_t{i} * n);
    });
  }
  static void SpreadParts(int m, int parts, int n, const Real* g, Real* out, bool add) {
    Run::Matrix(m * parts, n, [=] STARLING_HOST_DEVICE(int i, int j) {
      Put(&out[int64_t{i} * n + j], g[int64_t{i / parts} * n + j], add);
    });
  }

  static void PairProducts(int m, int slots, int dim, const Real* a, const Real* b, Real* out) {
    Run::Rows(m, [=] STARLING_HOST_DEVICE(int i) {
      const Real *ai = a + int64_t{i} * slots * dim, *bi = b + int64_t{i} * slots * dim;
      Real* to = out + int64_t{i} * (slots * (slots - 1) / 2) * dim;
      for (int s = 0; s < slots; ++s)
        for (int t = s + 1; t < slots; ++t, to += dim)
          for (int d = 0; d < dim; ++d) to[d] = ai[s * dim + d] * bi[t * dim + d];
    });
  }
  static void PairProductsBackward(int m, int slots, int dim, const Real* a, const Real* b,
                                   const Real* g, Real* da, bool add_a, Real* db, bool add_b) {
    Run::Rows(m, [=] STARLING_HOST_DEVICE(int i) {
      const int64_t at = int64_t{i} * slots * dim;
      const Real* from = g + int64_t{i} * (slots * (slots - 1) / 2) * dim;
      for (int j = 0; !add_a && j < slots * dim; ++j) da[at + j] = 0;
      for (int j = 0; !add_b && j < slots * dim; ++j) db[at + j] = 0;
      for (int s = 0; s < slots; ++s) {
        for (int t = s + 1; t < slots; ++t, from += dim) {
          for (int d = 0; d < dim; ++d) da[at + s * dim + d] += from[d] * b[at + t * dim + d];
          for (int d = 0; d < dim; ++d) db[at + t * dim + d] += from[d] * a[at + s * dim + d];
        }
      }
    });
  }

  // The place of (i, j), i < j, among the pairs.
  STARLING_HOST_DEVICE static int PairAt(int n, int i, int j) {
    return i * n - i * (i + 1) / 2 + (j - i - 1);
  }
  static void FillSymmetric(int n, const Real* pairs, Real* out) {
    Run::Rows(n, [=] STARLING_HOST_DEVICE(int i) {
      const Real* from = pairs + PairAt(n, i, i + 1);
      out[i * n + i] = 0;
      for (int j = i + 1; j < n; ++j) out[i * n + j] = out[j * n + i] = from[j - i - 1];
    });
  }
  static void Upper(int n, const Real* square, Real* pairs) {
    Run::Rows(n, [=] STARLING_HOST_DEVICE(int i) {
      Real* to = pairs + PairAt(n, i, i + 1);
      for (int j = i + 1; j < n; ++j) to[j - i - 1] = square[i * n + j];
    });
  }

  static void Prelu(int m, int n, const Real* x, const Real* slope, Real* y) {
    Run::Matrix(m, n, [=] STARLING_HOST_DEVICE(int i, int j) {
      const Real at = x[int64_t{i} * n + j];
      y[int64_t{i} * n + j] = at < 0 ? at * slope[j] : at;
    });
  }
  static void PreluSlopeGrad(int m, int n, const Real* x, const Real* g, Real* slope_grad) {
    Run::Columns(m, n, [=] STARLING_HOST_DEVICE(int i, int j) {
      const int64_t at = int64_t{i} * n + j;
      slope_grad[j] += x[at] < 0 ? g[at] * x[at] : 0;
    });
  }
  static void PreluBackward(int m, int n, const Real* x, const Real* slope, const Real* g,
                            Real* out, bool add) {
    Run::Matrix(m, n, [=] STARLING_HOST_DEVICE(int i, int j) {
      const int64_t at = int64_t{i} * n + j;
      Put(&out[at], x[at] < 0 ? g[at] * slope[j] : g[at], add);
    });
  }
  static void LeakyRelu(int64_t n, Real slope, const Real* x, Real* y) {
    Run::Elements(n,
                  [=] STARLING_HOST_DEVICE(int64_t i) { y[i] = x[i] < 0 ? x[i] * slope : x[i]; });
  }
  static void LeakyReluBackward(int64_t n, Real slope, const Real* y, const Real* g, Real* out,
                                bool add) {
    Run::Elements(n, [=] STARLING_HOST_DEVICE(int64_t i) {
      Put(&out[i], y[i] > 0 ? g[i] : g[i] * slope, add);
    });
  }
  static void Gelu(int64_t n, const Real* x, Real* y) {
    Run::Elements(n, [=] STARLING_HOST_DEVICE(int64_t i) { y[i] = x[i] * NormalBelow(x[i]); });
  }
  static void GeluBackward(int64_t n, const Real* x, const Real* g, Real* out, bool add) {
    Run::Elements(n, [=] STARLING_HOST_DEVICE(int64_t i) {
      const Real density = Exp(x[i] * x[i] / -2) * static_cast<Real>(0.39894228040143267794);
      Put(&out[i], g[i] * (NormalBelow(x[i]) + x[i] * density), add);
    });
  }

  static constexpr FieldKernels kTable = {
      .fm_sums = FmSums,
      .fm = Fm,
      .fm_backward = FmBackward,
      .fm_shared_backward = FmSharedBackward,
      .bi_interaction = BiInteraction,
      .bi_interaction_backward = BiInteractionBackward,
      .cross = Cross,
      .scale_rows = ScaleRows,
      .row_dots = RowDots,
      .outer = Outer,
      .outer_backward = OuterBackward,
      .transpose = Transpose,
      .layer_norm = LayerNorm,
      .layer_norm_backward = LayerNormBackward,
      .normalize = Normalize,
      .normalize_backward = NormalizeBackward,
      .softmax = Softmax,
      .softmax_backward = SoftmaxBackward,
      .scaled_multiply = ScaledMultiply,
      .copy_rows = CopyRows,
      .add_gathered = AddGathered,
      .scatter_add = ScatterAdd,
      .sum_parts = SumParts,
      .spread_parts = SpreadParts,
      .pair_products = PairProducts,
      .pair_products_backward = PairProductsBackward,
      .fill_symmetric = FillSymmetric,
      .upper = Upper,
      .prelu = Prelu,
      .prelu_slope_grad = PreluSlopeGrad,
      .prelu_backward = PreluBackward,
      .leaky_relu = LeakyRelu,
      .leaky_relu_backward = LeakyReluBackward,
      .gelu = Gelu,
      .gelu_backward = GeluBackward,
  };
};

}  // namespace STARLING_ISA
}  // namespace starling
