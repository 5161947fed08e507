// A register block of kRows x 16 accumulators runs down k; a panel of B stays in
// L1 and a strip of A in L2 meanwhile. See gemm.h for why the order of k is sacred.
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
constexpr int kDepth = 512;  // Of k at a time.
constexpr int kStrip = 96;   // Rows of A at a time, a multiple of kRows: they stay in L2.

typedef float Vec __attribute__((vector_size(kLanes * 4)));
typedef float LooseVec __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));

const float kZeros[kGemmPanel] = {};

inline Vec Load(const float* p) { return *reinterpret_cast<const LooseVec*>(p); }
inline void Store(float* p, Vec v) { *reinterpret_cast<LooseVec*>(p) = v; }
#ifdef __AVX2__
inline Vec Spread(float x) { return _mm256_set1_ps(x); }
inline Vec MultiplyAdd(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
#else
inline Vec Spread(float x) { return _mm_set1_ps(x); }
inline Vec MultiplyAdd(Vec a, Vec b, Vec c) { return a * b + c; }
#endif

// The chains of a block (rows, 16): from `start`, whose rows are start_stride
// apart (0: one row for all), to `c`.
struct Chains {
  const float* start;
  int64_t start_stride;
  float* c;
  int64_t stride;
};

// Continues the chains by k steps. kPacked: A is as PackRows leaves it, else
// its columns are adjacent and its rows `stride` apart.
template <int rows, bool kPacked>
inline void Block(int k, const float* a, int64_t stride, const float* b, int64_t b_stride,
                  const Chains& out) {
  Vec acc[rows][kVectors];
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < kVectors; ++v)
      acc[r][v] = Load(out.start + r * out.start_stride + v * kLanes);
#pragma GCC unroll 4
  for (int i = 0; i < k; ++i) {
    Vec bv[kVectors];
    for (int v = 0; v < kVectors; ++v) bv[v] = Load(b + i * b_stride + v * kLanes);
    for (int r = 0; r < rows; ++r) {
      Vec av = Spread(kPacked ? a[i * kRows + r] : a[r * stride + i]);
      for (int v = 0; v < kVectors; ++v) acc[r][v] = MultiplyAdd(av, bv[v], acc[r][v]);
    }
  }
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < kVectors; ++v) Store(out.c + r * out.stride + v * kLanes, acc[r][v]);
}

template <bool kPacked>
void Rows(int rows, int k, const float* a, int64_t stride, const float* b, int64_t b_stride,
          const Chains& out) {
  switch (rows) {
    case 1:
      return Block<1, kPacked>(k, a, stride, b, b_stride, out);
    case 2:
      return Block<2, kPacked>(k, a, stride, b, b_stride, out);
#ifdef __AVX2__
    case 3:
      return Block<3, kPacked>(k, a, stride, b, b_stride, out);
    case 4:
      return Block<4, kPacked>(k, a, stride, b, b_stride, out);
    case 5:
      return Block<5, kPacked>(k, a, stride, b, b_stride, out);
    case 6:
      return Block<6, kPacked>(k, a, stride, b, b_stride, out);
#endif
  }
}

// A strip of A against one panel; a partial panel works in a full one of its own.
template <bool kPacked>
void Panel(int m, int k, int cols, const float* a, int64_t stride, const float* b, int64_t b_stride,
           const Chains& out) {
  for (int i = 0; i < m; i += kRows) {
    const int rows = m - i < kRows ? m - i : kRows;
    const float* ai = a + i * (kPacked ? k : stride);
    const Chains to{out.start + i * out.start_stride, out.start_stride, out.c + i * out.stride,
                    out.stride};
    if (cols == kGemmPanel) {
      // The next block of C, which the processor would not guess.
      for (int r = kRows; r < 2 * kRows; ++r) {
        __builtin_prefetch(to.c + r * to.stride, 1);
        __builtin_prefetch(to.c + r * to.stride + kGemmPanel - 1, 1);
      }
      Rows<kPacked>(rows, k, ai, stride, b, b_stride, to);
      continue;
    }
    float full[kRows * kGemmPanel] = {};
    for (int r = 0; r < rows; ++r)
      for (int j = 0; j < cols; ++j) full[r * kGemmPanel + j] = to.start[r * to.start_stride + j];
    Rows<kPacked>(rows, k, ai, stride, b, b_stride, {full, kGemmPanel, full, kGemmPanel});
    for (int r = 0; r < rows; ++r)
      for (int j = 0; j < cols; ++j) to.c[r * to.stride + j] = full[r * kGemmPanel + j];
  }
}

// Rows of a transposed matrix, kRows side by side: read down its columns they
// would take a cache line each step of k. Some columns at a time, so that the
// lines and pages read stay near.
void PackRows(int m, int k, const float* a, int64_t col_stride, float* out) {
  constexpr int kColumns = 16;
  for (int p0 = 0; p0 < k; p0 += kColumns) {
    const int end = k - p0 < kColumns ? k : p0 + kColumns;
    for (int i = 0; i < m; i += kRows) {
      const int rows = m - i < kRows ? m - i : kRows;
      const float* from = a + i;
      float* to = out + static_cast<int64_t>(i) * k;
      for (int p = p0; rows == kRows && p < end; ++p) {
        __builtin_memcpy(to + p * kRows, from + p * col_stride, kRows * sizeof(float));
      }
      for (int p = p0; rows < kRows && p < end; ++p) {
        for (int r = 0; r < rows; ++r) to[p * kRows + r] = from[p * col_stride + r];
      }
    }
  }
}

// A strip of A (m, depth) against all panels, from row k0 of them on.
template <bool kPacked>
void Strip(int m, int n, int k0, int depth, const float* a, int64_t stride, const GemmB& b,
           const Chains& out) {
  for (int j = 0; j < n; j += kGemmPanel) {
    const int cols = n - j < kGemmPanel ? n - j : kGemmPanel;
    const bool partial = cols < kGemmPanel;
    const int64_t b_stride = partial ? kGemmPanel : b.row_stride;
    const float* b0 = (partial ? b.last : b.data + j / kGemmPanel * b.panel_stride) + k0 * b_stride;
    const float* start = out.start == kZeros ? kZeros : out.start + j;
    Panel<kPacked>(m, depth, cols, a, stride, b0, b_stride,
                   {start, out.start_stride, out.c + j, out.stride});
  }
}

void Multiply(int m, int n, int k, const GemmA& a, const GemmB& b, GemmStart start,
              const float* bias, float* c) {
  const bool down = a.row_stride == 1 && a.col_stride != 1;
  alignas(64) float packed[kStrip * kDepth];
  for (int i = 0; i < m; i += kStrip) {
    const int rows = m - i < kStrip ? m - i : kStrip;
    float* ci = c + static_cast<int64_t>(i) * n;
    for (int k0 = 0; k0 == 0 || k0 < k; k0 += kDepth) {
      const int depth = k - k0 < kDepth ? k - k0 : kDepth;
      const float* a0 = a.data + i * a.row_stride + k0 * a.col_stride;
      Chains out{ci, n, ci, n};
      if (k0 == 0 && start == GemmStart::kZero) out = {kZeros, 0, ci, n};
      if (k0 == 0 && start == GemmStart::kBias) out = {bias, 0, ci, n};
      if (down) {
        PackRows(rows, depth, a0, a.col_stride, packed);
        Strip<true>(rows, n, k0, depth, packed, 0, b, out);
      } else {
        Strip<false>(rows, n, k0, depth, a0, a.row_stride, b, out);
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
