// A register block of accumulators, kRows by one or more panels, runs down k; the
// panels of B stay in L1 and a strip of A in L2 meanwhile. See gemm.h for why the
// order of k is sacred. AVX-512 gives the bits of AVX2: the chains are the same.
#include "dense_net/gemm_skip.h"
#include "dense_net/gemm_vectors.h"
#include "dense_net/kernels.h"

namespace starling {
namespace STARLING_ISA {
namespace {

#ifdef __AVX512F__
constexpr int kRows = 12;
constexpr int kPanels = 2;  // Of a block.
#elif defined(__AVX2__)
constexpr int kRows = 6;
constexpr int kPanels = 1;
#else
constexpr int kRows = 2;
constexpr int kPanels = 1;
#endif
constexpr int kVectors = kGemmPanel / kLanes;  // Of a panel.
constexpr int kDepth = 512 / kPanels;          // Of k at a time.
constexpr int kStrip = 96;  // Rows of A at a time, a multiple of kRows: they stay in L2.

const float kZeros[kPanels * kGemmPanel] = {};

// Panels of B side by side, from some row of them on.
struct Panels {
  const float* b;
  int64_t row_stride, panel_stride;
};

// Continues the chains by k steps. kPacked: A is as PackRows leaves it, else
// its columns are adjacent and its rows `stride` apart.
template <int rows, int panels, bool kPacked>
inline void Block(int k, const float* a, int64_t stride, const Panels& b, const Chains& out) {
  constexpr int vectors = panels * kVectors;
  Vec acc[rows][vectors];
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v)
      acc[r][v] = Load(out.start + r * out.start_stride + v * kLanes);
  const float* b0 = b.b;
  const float* b1 = b.b + (panels - 1) * b.panel_stride;
#pragma GCC unroll 4
  for (int i = 0; i < k; ++i) {
    Vec bv[vectors];
    for (int v = 0; v < vectors; ++v)
      bv[v] = Load((v < kVectors ? b0 : b1) + i * b.row_stride + v % kVectors * kLanes);
    for (int r = 0; r < rows; ++r) {
      Vec av = Spread(kPacked ? a[i * kRows + r] : a[r * stride + i]);
      for (int v = 0; v < vectors; ++v) acc[r][v] = MultiplyAdd(av, bv[v], acc[r][v]);
    }
  }
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v) Store(out.c + r * out.stride + v * kLanes, acc[r][v]);
}

// Block<rows>, for any number of them.
template <int panels, bool kPacked, int most = kRows>
void Rows(int rows, int k, const float* a, int64_t stride, const Panels& b, const Chains& out) {
  if (rows == most) return Block<most, panels, kPacked>(k, a, stride, b, out);
  if constexpr (most > 1) Rows<panels, kPacked, most - 1>(rows, k, a, stride, b, out);
}

// A strip of A against whole panels.
template <int panels, bool kPacked>
void Whole(int m, int k, const float* a, int64_t stride, const Panels& b, const Chains& out) {
  for (int i = 0; i < m; i += kRows) {
    const int rows = m - i < kRows ? m - i : kRows;
    const Chains to = out.At(i, 0);
    // The next block of C, which the processor would not guess.
    for (int r = kRows; r < 2 * kRows; ++r) {
      for (int p = 0; p <= panels; ++p) {
        __builtin_prefetch(to.c + r * to.stride + p * kGemmPanel - (p == panels), 1);
      }
    }
    Rows<panels, kPacked>(rows, k, a + i * (kPacked ? k : stride), stride, b, to);
  }
}

// A strip of A against the panel that has `cols` columns alone: in a whole one of its own.
template <bool kPacked>
void Partial(int m, int k, int cols, const float* a, int64_t stride, const Panels& b,
             const Chains& out) {
  for (int i = 0; i < m; i += kRows) {
    const int rows = m - i < kRows ? m - i : kRows;
    const Chains to = out.At(i, 0);
    float full[kRows * kGemmPanel] = {};
    for (int r = 0; r < rows; ++r)
      for (int j = 0; j < cols; ++j) full[r * kGemmPanel + j] = to.start[r * to.start_stride + j];
    Rows<1, kPacked>(rows, k, a + i * (kPacked ? k : stride), stride, b,
                     {full, kGemmPanel, full, kGemmPanel});
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
  auto from = [&](int j) {
    return Panels{b.data + j / kGemmPanel * b.panel_stride + k0 * b.row_stride, b.row_stride,
                  b.panel_stride};
  };
  auto to = [&](int j) {
    return out.start == kZeros ? Chains{kZeros, 0, out.c + j, out.stride} : out.At(0, j);
  };
  int j = 0;
  for (; j + kPanels * kGemmPanel <= n; j += kPanels * kGemmPanel) {
    Whole<kPanels, kPacked>(m, depth, a, stride, from(j), to(j));
  }
  for (; j + kGemmPanel <= n; j += kGemmPanel) {
    Whole<1, kPacked>(m, depth, a, stride, from(j), to(j));
  }
  if (j < n) {
    const Panels last{b.last + k0 * kGemmPanel, kGemmPanel, 0};
    Partial<kPacked>(m, depth, n - j, a, stride, last, to(j));
  }
}

void Multiply(int m, int n, int k, const GemmA& whole, const GemmB& b, GemmStart start,
              const float* bias, float* c) {
  GemmA a = whole;
#ifdef __AVX2__
  if (WorthSkipping(m, n, k, a)) return MultiplySkipping(m, n, k, a, b, start, bias, c);
  if (start == GemmStart::kAdd && WorthSkippingB(m, n, k, a, b)) {
    const int done = AddSkippingB(m, n, k, a, b, c);
    a.data += done * a.row_stride;
    c += static_cast<int64_t>(done) * n;
    m -= done;
  }
#endif
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

// Four vectors of eight lanes run down k, which AVX-512 holds two by two.
void RowDots(int m, int k, const float* x, const float* w, float start, float* y) {
  constexpr int kStep = kLanes == 4 ? 16 : 32;
  constexpr int kWays = kStep / kLanes;
  for (int i = 0; i < m; ++i) {
    const float* row = x + static_cast<int64_t>(i) * k;
    Vec acc[kWays] = {};
    int j = 0;
    for (; j + kStep <= k; j += kStep)
      for (int v = 0; v < kWays; ++v)
        acc[v] = MultiplyAdd(Load(row + j + v * kLanes), Load(w + j + v * kLanes), acc[v]);
    constexpr int kQuarter = kStep / 4;
    const float* sums = reinterpret_cast<const float*>(acc);
    float total = start;
    for (int v = 0; v < kQuarter; ++v) {
      total += (sums[v] + sums[v + kQuarter]) + (sums[v + 2 * kQuarter] + sums[v + 3 * kQuarter]);
    }
    for (; j < k; ++j) total += row[j] * w[j];
    y[i] = total;
  }
}

}  // namespace

extern const GemmKernels kGemm;
const GemmKernels kGemm = {kLanes == 16  ? "avx512"
                           : kLanes == 8 ? "avx2"
                                         : "base",
                           Multiply, Pack, RowDots};

}  // namespace STARLING_ISA
}  // namespace starling
