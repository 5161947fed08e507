// Element-wise and row-wise loops. Compiled without contraction of a * b + c,
// so that a vector body and its scalar remainder give the same bits.
#include "dense_net/kernels.h"

namespace starling {
namespace STARLING_ISA {
namespace {

inline void Put(Real* out, Real value, bool add) { *out = add ? *out + value : value; }

void AddRows(int m, int n, const Real* x, const Real* scale, Real* out) {
  for (int i = 0; i < m; ++i) {
    const Real* row = x + static_cast<int64_t>(i) * n;
    const Real s = scale == nullptr ? 1 : scale[i];
    for (int j = 0; j < n; ++j) out[j] += s * row[j];
  }
}

void ColumnMoments(int m, int n, const Real* x, Real* mean, Real* m2) {
  for (int j = 0; j < n; ++j) mean[j] = m2[j] = 0;
  AddRows(m, n, x, nullptr, mean);
  for (int j = 0; j < n; ++j) mean[j] /= static_cast<Real>(m);
  for (int i = 0; i < m; ++i) {
    const Real* row = x + static_cast<int64_t>(i) * n;
    for (int j = 0; j < n; ++j) m2[j] += (row[j] - mean[j]) * (row[j] - mean[j]);
  }
}

void ScaleShift(int m, int n, const Real* x, const Real* scale, const Real* shift, Real* y) {
  for (int i = 0; i < m; ++i, x += n, y += n)
    for (int j = 0; j < n; ++j) y[j] = x[j] * scale[j] + shift[j];
}

void NormSums(int m, int n, const Real* g, const Real* x, const Real* mean, const Real* inv_std,
              Real* sum_g, Real* sum_gx) {
  for (int i = 0; i < m; ++i, x += n, g += n) {
    for (int j = 0; j < n; ++j) {
      sum_g[j] += g[j];
      sum_gx[j] += g[j] * ((x[j] - mean[j]) * inv_std[j]);
    }
  }
}

void NormBackward(int m, int n, const Real* g, const Real* x, const Real* mean, const Real* inv_std,
                  const Real* scale, const Real* mean_g, const Real* mean_gx, Real* out, bool add) {
  for (int i = 0; i < m; ++i, x += n, g += n, out += n) {
    for (int j = 0; j < n; ++j) {
      const Real normal = (x[j] - mean[j]) * inv_std[j];
      Put(&out[j], scale[j] * (g[j] - mean_g[j] - normal * mean_gx[j]), add);
    }
  }
}

void Relu(int64_t n, const Real* x, Real* y) {
  // Written so that NaN stays NaN: it must reach the loss to be reported.
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] < 0 ? 0 : x[i];
}

void ReluBackward(int64_t n, const Real* y, const Real* g, Real* out, bool add) {
  for (int64_t i = 0; i < n; ++i) Put(&out[i], y[i] > 0 ? g[i] : 0, add);
}

inline uint64_t MixKey(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}
// Murmur3's finaliser over column and row key: vectorises, five cheap steps.
inline uint32_t Hash(uint32_t row_key, uint32_t row_key2, uint32_t column) {
  uint32_t h = (column * 0x9E3779B1u) ^ row_key;
  h ^= h >> 16;
  h *= 0x85EBCA6Bu;
  h ^= (h >> 13) ^ row_key2;
  h *= 0xC2B2AE35u;
  return h ^ (h >> 16);
}

// Signed, since AVX2 compares no unsigned integers: both sides are shifted by 2^31.
inline Real DropoutScale(uint32_t hash, uint32_t keep, Real keep_scale) {
  const int32_t h = static_cast<int32_t>(hash ^ 0x80000000u);
  return h < static_cast<int32_t>(keep ^ 0x80000000u) ? keep_scale : 0;
}

void Dropout(int m, int n, uint64_t key, int64_t first_row, uint32_t keep, Real keep_scale,
             const Real* x, Real* out, bool add) {
  for (int i = 0; i < m; ++i, x += n, out += n) {
    const uint64_t row = MixKey(key + static_cast<uint64_t>(first_row + i) * 0x9E3779B97F4A7C15ull);
    const uint32_t low = static_cast<uint32_t>(row), high = static_cast<uint32_t>(row >> 32);
    for (int j = 0; j < n; ++j) {
      Put(&out[j], x[j] * DropoutScale(Hash(low, high, j), keep, keep_scale), add);
    }
  }
}

// sum (dim) = the sum of a row's vectors.
inline void SumSlots(int slots, int dim, const Real* x, Real* sum) {
  for (int d = 0; d < dim; ++d) sum[d] = 0;
  for (int s = 0; s < slots; ++s)
    for (int d = 0; d < dim; ++d) sum[d] += x[s * dim + d];
}

void Fm(int m, int slots, int dim, const Real* x, Real* scratch, Real* y) {
  Real* sum = scratch;
  Real* squares = scratch + dim;
  for (int i = 0; i < m; ++i, x += slots * dim) {
    SumSlots(slots, dim, x, sum);
    for (int d = 0; d < dim; ++d) squares[d] = 0;
    for (int s = 0; s < slots; ++s)
      for (int d = 0; d < dim; ++d) squares[d] += x[s * dim + d] * x[s * dim + d];
    Real total = 0;
    for (int d = 0; d < dim; ++d) total += sum[d] * sum[d] - squares[d];
    y[i] = Real{0.5} * total;
  }
}

void FmBackward(int m, int slots, int dim, const Real* x, const Real* g, Real* scratch, Real* out,
                bool add) {
  for (int i = 0; i < m; ++i, x += slots * dim, out += slots * dim) {
    SumSlots(slots, dim, x, scratch);
    for (int s = 0; s < slots; ++s)
      for (int d = 0; d < dim; ++d)
        Put(&out[s * dim + d], g[i] * (scratch[d] - x[s * dim + d]), add);
  }
}

void MultiplyAdd(int64_t n, const Real* a, const Real* b, const Real* c, Real* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = a[i] * b[i] + c[i];
}
void Multiply(int64_t n, const Real* a, const Real* b, Real* out, bool add) {
  for (int64_t i = 0; i < n; ++i) Put(&out[i], a[i] * b[i], add);
}
void Copy(int64_t n, const Real* x, Real* out, bool add) {
  for (int64_t i = 0; i < n; ++i) Put(&out[i], x[i], add);
}

void Pool(const SlotView& slot, int64_t first, int m, int offset, int dim, Real* out,
          int64_t stride) {
  for (int i = 0; i < m; ++i, out += stride) {
    uint32_t entry = static_cast<uint32_t>(first + i);
    if (slot.entry_of_row != nullptr) {
      entry = slot.entry_of_row[first + i];
      if (i > 0 && entry == slot.entry_of_row[first + i - 1]) {
        for (int d = 0; d < dim; ++d) out[d] = out[d - stride];
        continue;
      }
    }
    for (int d = 0; d < dim; ++d) out[d] = 0;
    for (uint32_t v = slot.offsets[entry]; v < slot.offsets[entry + 1]; ++v) {
      const Real* row = slot.rows + slot.index[v] * slot.width + offset;
      const Real weight = slot.weights == nullptr ? 1 : slot.weights[v];
      for (int d = 0; d < dim; ++d) out[d] += weight * row[d];
    }
  }
}

void SumOccurrences(const Occurrence* begin, const Occurrence* end, const GradientRoute* routes,
                    int width, Real* grad) {
  for (int d = 0; d < width; ++d) grad[d] = 0;
  for (const Occurrence* o = begin; o != end; ++o) {
    const GradientRoute& route = routes[o->slot];
    const uint32_t row = route.row_of_entry == nullptr ? o->entry : route.row_of_entry[o->entry];
    if (route.embedding != nullptr) {
      const Real* from = route.embedding + row * route.embedding_stride;
      Real* to = grad + route.embedding_offset;
      for (int d = 0; d < route.embedding_dim; ++d) to[d] += o->weight * from[d];
    }
    if (route.linear != nullptr) grad[route.linear_offset] += o->weight * route.linear[row];
  }
}

}  // namespace

extern const Kernels kKernels;
const Kernels kKernels = {
    .add_rows = AddRows,
    .column_moments = ColumnMoments,
    .scale_shift = ScaleShift,
    .norm_sums = NormSums,
    .norm_backward = NormBackward,
    .relu = Relu,
    .relu_backward = ReluBackward,
    .dropout = Dropout,
    .fm = Fm,
    .fm_backward = FmBackward,
    .multiply_add = MultiplyAdd,
    .multiply = Multiply,
    .copy = Copy,
    .pool = Pool,
    .sum_occurrences = SumOccurrences,
};

}  // namespace STARLING_ISA
}  // namespace starling
