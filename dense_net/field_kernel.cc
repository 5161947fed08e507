// Compiled without contraction of a * b + c, as ops_kernel.cc.
#include "dense_net/field_kernels.h"

namespace starling {
namespace STARLING_ISA {
namespace {

inline void Put(Real* out, Real value, bool add) { *out = add ? *out + value : value; }

inline void SumSlots(int slots, int dim, const Real* x, Real* sum) {
  for (int d = 0; d < dim; ++d) sum[d] = 0;
  for (int s = 0; s < slots; ++s)
    for (int d = 0; d < dim; ++d) sum[d] += x[s * dim + d];
}

void BiInteraction(int m, int slots, int dim, const Real* x, Real* scratch, Real* y) {
  for (int i = 0; i < m; ++i, x += slots * dim, y += dim) {
    SumSlots(slots, dim, x, scratch);
    for (int d = 0; d < dim; ++d) y[d] = 0;
    for (int s = 0; s < slots; ++s)
      for (int d = 0; d < dim; ++d) y[d] += x[s * dim + d] * x[s * dim + d];
    for (int d = 0; d < dim; ++d) y[d] = Real{0.5} * (scratch[d] * scratch[d] - y[d]);
  }
}

void BiInteractionBackward(int m, int slots, int dim, const Real* x, const Real* g, Real* scratch,
                           Real* out, bool add) {
  for (int i = 0; i < m; ++i, x += slots * dim, out += slots * dim, g += dim) {
    SumSlots(slots, dim, x, scratch);
    for (int s = 0; s < slots; ++s)
      for (int d = 0; d < dim; ++d)
        Put(&out[s * dim + d], g[d] * (scratch[d] - x[s * dim + d]), add);
  }
}

void Cross(int m, int n, const Real* x0, const Real* u, const Real* bias, const Real* x, Real* y) {
  for (int i = 0; i < m; ++i, x0 += n, x += n, y += n)
    for (int j = 0; j < n; ++j) y[j] = x0[j] * u[i] + bias[j] + x[j];
}

void ScaleRows(int m, int n, const Real* x, const Real* scale, Real* out, bool add) {
  for (int i = 0; i < m; ++i, x += n, out += n)
    for (int j = 0; j < n; ++j) Put(&out[j], x[j] * scale[i], add);
}

void Outer(int m, int n, int n2, const Real* x, const Real* y, Real* out) {
  for (int i = 0; i < m; ++i, x += n, y += n2)
    for (int j = 0; j < n; ++j, out += n2)
      for (int k = 0; k < n2; ++k) out[k] = x[j] * y[k];
}

void Transpose(int m, int n, int n2, const Real* x, Real* out, bool add) {
  for (int i = 0; i < m; ++i, x += n * n2, out += n * n2)
    for (int j = 0; j < n; ++j)
      for (int k = 0; k < n2; ++k) Put(&out[k * n + j], x[j * n2 + k], add);
}

// The sum of fn(0 .. n - 1) in eight chains, which vectorise.
template <typename Fn>
inline Real Sum(int n, const Fn& fn) {
  Real chains[8] = {};
  int j = 0;
  for (; j + 8 <= n; j += 8)
    for (int v = 0; v < 8; ++v) chains[v] += fn(j + v);
  Real total = 0;
  for (int v = 0; v < 8; ++v) total += chains[v];
  for (; j < n; ++j) total += fn(j);
  return total;
}

struct Moments {
  Real mean, inv_std;
};
inline Moments MomentsOf(int n, const Real* x) {
  const Real mean = Sum(n, [&](int j) { return x[j]; }) / n;
  const Real variance = Sum(n, [&](int j) { return (x[j] - mean) * (x[j] - mean); }) / n;
  // The builtin: an inline function of <cmath> would be shared by both instruction sets.
  return {mean, static_cast<Real>(1 / __builtin_sqrt(variance + kLayerNormEps))};
}

void LayerNorm(int m, int n, const Real* x, const Real* scale, const Real* shift, Real* y) {
  for (int i = 0; i < m; ++i, x += n, y += n) {
    const Moments of = MomentsOf(n, x);
    for (int j = 0; j < n; ++j) y[j] = (x[j] - of.mean) * of.inv_std * scale[j] + shift[j];
  }
}

void LayerNormBackward(int m, int n, const Real* x, const Real* scale, const Real* g, Real* scratch,
                       Real* scale_grad, Real* out, bool add) {
  for (int i = 0; i < m; ++i, x += n, g += n, out += n) {
    const Moments of = MomentsOf(n, x);
    for (int j = 0; j < n; ++j) {
      scratch[j] = (x[j] - of.mean) * of.inv_std;
      scale_grad[j] += g[j] * scratch[j];
    }
    const Real mean = Sum(n, [&](int j) { return g[j] * scale[j]; }) / n;
    const Real slope = Sum(n, [&](int j) { return g[j] * scale[j] * scratch[j]; }) / n;
    for (int j = 0; j < n; ++j) {
      Put(&out[j], of.inv_std * (g[j] * scale[j] - mean - scratch[j] * slope), add);
    }
  }
}

void ScaledMultiply(int64_t n, Real scale, const Real* a, const Real* b, Real* out, bool add) {
  for (int64_t i = 0; i < n; ++i) Put(&out[i], scale * a[i] * b[i], add);
}

void PairProducts(int m, int slots, int dim, const Real* a, const Real* b, Real* out) {
  for (int i = 0; i < m; ++i, a += slots * dim, b += slots * dim)
    for (int s = 0; s < slots; ++s)
      for (int t = s + 1; t < slots; ++t, out += dim)
        for (int d = 0; d < dim; ++d) out[d] = a[s * dim + d] * b[t * dim + d];
}

void PairProductsBackward(int m, int slots, int dim, const Real* a, const Real* b, const Real* g,
                          Real* da, Real* db) {
  const int row = slots * dim;
  for (int i = 0; i < m; ++i, a += row, b += row, da += row, db += row) {
    for (int s = 0; s < slots; ++s) {
      for (int t = s + 1; t < slots; ++t, g += dim) {
        for (int d = 0; d < dim; ++d) da[s * dim + d] += g[d] * b[t * dim + d];
        for (int d = 0; d < dim; ++d) db[t * dim + d] += g[d] * a[s * dim + d];
      }
    }
  }
}

}  // namespace

extern const FieldKernels kFieldKernels;
const FieldKernels kFieldKernels = {
    .bi_interaction = BiInteraction,
    .bi_interaction_backward = BiInteractionBackward,
    .cross = Cross,
    .scale_rows = ScaleRows,
    .outer = Outer,
    .transpose = Transpose,
    .layer_norm = LayerNorm,
    .layer_norm_backward = LayerNormBackward,
    .scaled_multiply = ScaledMultiply,
    .pair_products = PairProducts,
    .pair_products_backward = PairProductsBackward,
};

}  // namespace STARLING_ISA
}  // namespace starling
