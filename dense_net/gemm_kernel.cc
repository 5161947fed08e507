// A register block of kRows x 16 accumulators runs down k; panels of B and some
// rows of A stay in L1 meanwhile. See gemm.h for why the order of k is sacred.
#include <immintrin.h>

#include "dense_net/kernels.h"

namespace starling {
namespace STARLING_ISA {
namespace {

#ifdef __AVX2__
constexpr int kRows = 6;
constexpr int kLanes = 8;
#else
constexpr int kRows = 2;
constexpr int kLanes = 4;
#endif
constexpr int kVectors = kGemmPanel / kLanes;
constexpr int kDepth = 320;  // Of k at a time: a panel of 20 KB.

typedef float Vec __attribute__((vector_size(kLanes * 4)));
typedef float LooseVec __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));

inline Vec Load(const float* p) { return *reinterpret_cast<const LooseVec*>(p); }
inline void Store(float* p, Vec v) { *reinterpret_cast<LooseVec*>(p) = v; }
#ifdef __AVX2__
inline Vec Spread(float x) { return _mm256_set1_ps(x); }
inline Vec MultiplyAdd(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
#else
inline Vec Spread(float x) { return _mm_set1_ps(x); }
inline Vec MultiplyAdd(Vec a, Vec b, Vec c) { return a * b + c; }
#endif

// c (rows, 16) continues its chains by k steps. kDown: A's rows are adjacent
// (A is a transposed matrix), else its columns are.
template <int rows, bool kDown>
inline void Block(int k, const float* a, int64_t stride, const float* b, int64_t b_stride, float* c,
                  int64_t c_stride) {
  Vec acc[rows][kVectors];
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < kVectors; ++v) acc[r][v] = Load(c + r * c_stride + v * kLanes);
#pragma GCC unroll 2
  for (int i = 0; i < k; ++i) {
    Vec bv[kVectors];
    for (int v = 0; v < kVectors; ++v) bv[v] = Load(b + i * b_stride + v * kLanes);
    for (int r = 0; r < rows; ++r) {
      Vec av = Spread(kDown ? a[i * stride + r] : a[r * stride + i]);
      for (int v = 0; v < kVectors; ++v) acc[r][v] = MultiplyAdd(av, bv[v], acc[r][v]);
    }
  }
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < kVectors; ++v) Store(c + r * c_stride + v * kLanes, acc[r][v]);
}

template <bool kDown>
void Rows(int rows, int k, const float* a, int64_t stride, const float* b, int64_t b_stride,
          float* c, int64_t c_stride) {
  switch (rows) {
    case 1:
      return Block<1, kDown>(k, a, stride, b, b_stride, c, c_stride);
    case 2:
      return Block<2, kDown>(k, a, stride, b, b_stride, c, c_stride);
#ifdef __AVX2__
    case 3:
      return Block<3, kDown>(k, a, stride, b, b_stride, c, c_stride);
    case 4:
      return Block<4, kDown>(k, a, stride, b, b_stride, c, c_stride);
    case 5:
      return Block<5, kDown>(k, a, stride, b, b_stride, c, c_stride);
    case 6:
      return Block<6, kDown>(k, a, stride, b, b_stride, c, c_stride);
#endif
  }
}

inline void Init(int m, int n, const float* bias, float* c) {
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) c[static_cast<int64_t>(i) * n + j] = bias == nullptr ? 0 : bias[j];
}

// All rows against one panel; a partial panel works in a full one of its own.
template <bool kDown>
void Panel(int m, int n, int k, int cols, const float* a, int64_t a_row, int64_t stride,
           const float* b, int64_t b_stride, float* c) {
  for (int i = 0; i < m; i += kRows) {
    int rows = m - i < kRows ? m - i : kRows;
    const float* ai = a + i * a_row;
    float* ci = c + static_cast<int64_t>(i) * n;
    if (cols == kGemmPanel) {
      Rows<kDown>(rows, k, ai, stride, b, b_stride, ci, n);
      continue;
    }
    float full[kRows * kGemmPanel] = {};
    for (int r = 0; r < rows; ++r)
      for (int j = 0; j < cols; ++j) full[r * kGemmPanel + j] = ci[static_cast<int64_t>(r) * n + j];
    Rows<kDown>(rows, k, ai, stride, b, b_stride, full, kGemmPanel);
    for (int r = 0; r < rows; ++r)
      for (int j = 0; j < cols; ++j) ci[static_cast<int64_t>(r) * n + j] = full[r * kGemmPanel + j];
  }
}

void Multiply(int m, int n, int k, const GemmA& a, const GemmB& b, GemmStart start,
              const float* bias, float* c) {
  if (start != GemmStart::kAdd) Init(m, n, start == GemmStart::kBias ? bias : nullptr, c);
  const bool down = a.row_stride == 1 && a.col_stride != 1;
  for (int k0 = 0; k0 < k; k0 += kDepth) {
    int depth = k - k0 < kDepth ? k - k0 : kDepth;
    const float* a0 = a.data + k0 * a.col_stride;
    for (int j = 0; j < n; j += kGemmPanel) {
      int cols = n - j < kGemmPanel ? n - j : kGemmPanel;
      bool partial = cols < kGemmPanel;
      int64_t b_stride = partial ? kGemmPanel : b.row_stride;
      const float* b0 =
          (partial ? b.last : b.data + j / kGemmPanel * b.panel_stride) + k0 * b_stride;
      if (down) {
        Panel<true>(m, n, depth, cols, a0, 1, a.col_stride, b0, b_stride, c + j);
      } else {
        Panel<false>(m, n, depth, cols, a0, a.row_stride, a.row_stride, b0, b_stride, c + j);
      }
    }
  }
}

void Pack(int k, int n, const float* b, int64_t row_stride, int64_t col_stride, float* out) {
  for (int j = 0; j < n; j += kGemmPanel) {
    int cols = n - j < kGemmPanel ? n - j : kGemmPanel;
    for (int i = 0; i < k; ++i, out += kGemmPanel) {
      const float* from = b + i * row_stride + j * col_stride;
      if (cols == kGemmPanel && col_stride == 1) {
        for (int v = 0; v < kVectors; ++v) Store(out + v * kLanes, Load(from + v * kLanes));
        continue;
      }
      for (int c = 0; c < kGemmPanel; ++c) out[c] = c < cols ? from[c * col_stride] : 0;
    }
  }
}

void RowDots(int m, int k, const float* x, const float* w, float start, float* y) {
  constexpr int kWays = 4;
  constexpr int kStep = kWays * kLanes;
  for (int i = 0; i < m; ++i) {
    const float* row = x + static_cast<int64_t>(i) * k;
    Vec acc[kWays] = {};
    int j = 0;
    for (; j + kStep <= k; j += kStep)
      for (int v = 0; v < kWays; ++v)
        acc[v] = MultiplyAdd(Load(row + j + v * kLanes), Load(w + j + v * kLanes), acc[v]);
    Vec sum = (acc[0] + acc[1]) + (acc[2] + acc[3]);
    float total = start;
    for (int v = 0; v < kLanes; ++v) total += sum[v];
    for (; j < k; ++j) total += row[j] * w[j];
    y[i] = total;
  }
}

}  // namespace

extern const GemmKernels kGemm;
const GemmKernels kGemm = {kLanes == 8 ? "avx2" : "base", Multiply, Pack, RowDots};

}  // namespace STARLING_ISA
}  // namespace starling
