// For some of k at a time a mask says which values of a row of A are not zero; that part of some
// panels of B is copied together and stays in L1 while the rows of A go over it, each with a chain
// a column in registers, from one set bit to the next. Every multiply-add needs a load from L1, so
// at best a whole product is done at nine tenths of the rate of one that keeps B in registers
// for several rows.
#include "dense_net/gemm_skip.h"

#ifdef __AVX2__

#include "dense_net/gemm_vectors.h"

namespace starling {
namespace STARLING_ISA {
namespace {

constexpr int kVectors = kGemmPanel / kLanes;  // Of a panel.
// Panels at a time: chains enough to hide a multiply-add's latency, with kDepth of k about what L1
// holds.
constexpr int kPanelsMax = kLanes == 16 ? 9 : 6;
constexpr int kDepth = 64;  // A mask's bits.
constexpr int kRows = 256;  // Of A at a time: they and their part of C stay in L2.
constexpr int kZerosMin = 30, kZerosMinB = 40;                              // Per cent.
constexpr int kColumnsMin = 4 * kGemmPanel, kDepthMin = 32, kRowsMin = 24;  // Else not worth it.

inline int Least(int a, int b) { return a < b ? a : b; }

// Rows of A, up to kDepth of k: row r begins at data + r * stride, and bit p of masks[r] is set
// where its value p is not zero.
struct MaskedRows {
  const float* data;
  int64_t stride;
  uint64_t masks[kRows];
  alignas(64) float turned[kRows * kDepth];  // Of those that stand as columns.
};

inline uint64_t NonZeros(__m256 x) {
  return static_cast<unsigned>(
      _mm256_movemask_ps(_mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_NEQ_UQ)));
}

void MaskRows(int m, int k, const float* a, int64_t stride, uint64_t* masks) {
  for (int r = 0; r < m; ++r) {
    const float* row = a + r * stride;
    uint64_t mask = 0;
    int p = 0;
    for (; p + 8 <= k; p += 8) mask |= NonZeros(_mm256_loadu_ps(row + p)) << p;
    for (; p < k; ++p) mask |= static_cast<uint64_t>(row[p] != 0) << p;
    masks[r] = mask;
  }
}

inline void Transpose(__m256 (&x)[8]) {
  __m256 pairs[8], fours[8];
  for (int i = 0; i < 8; i += 2) {
    pairs[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    fours[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
    fours[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xEE);
    fours[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
    fours[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xEE);
  }
  for (int i = 0; i < 4; ++i) {
    x[i] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20);
    x[i + 4] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31);
  }
}

// to(j, i) = from(i, j), each with adjacent columns.
void TransposeTo(int m, int n, const float* from, int64_t stride, float* to, int64_t to_stride) {
  for (int i = 0; i < m; i += 8) {
    for (int j = 0; j < n; j += 8) {
      const float* a = from + i * stride + j;
      float* out = to + j * to_stride + i;
      if (m - i < 8 || n - j < 8) {
        for (int r = 0; r < Least(8, m - i); ++r)
          for (int c = 0; c < Least(8, n - j); ++c) out[c * to_stride + r] = a[r * stride + c];
        continue;
      }
      __m256 x[8];
      for (int r = 0; r < 8; ++r) x[r] = _mm256_loadu_ps(a + r * stride);
      Transpose(x);
      for (int r = 0; r < 8; ++r) _mm256_storeu_ps(out + r * to_stride, x[r]);
    }
  }
}

// Of a matrix whose columns are adjacent, `stride` apart.
void TurnColumns(int m, int k, const float* a, int64_t stride, MaskedRows* rows) {
  rows->data = rows->turned;
  rows->stride = kDepth;
  for (int r = 0; r < m; ++r) rows->masks[r] = 0;
  int r = 0;
  for (; r + 8 <= m; r += 8) {
    for (int p = 0; p < k; p += 8) {
      __m256 x[8] = {};
      for (int i = 0; i < Least(8, k - p); ++i) x[i] = _mm256_loadu_ps(a + (p + i) * stride + r);
      Transpose(x);
      for (int i = 0; i < 8; ++i) {
        _mm256_store_ps(rows->turned + (r + i) * kDepth + p, x[i]);
        rows->masks[r + i] |= NonZeros(x[i]) << p;
      }
    }
  }
  for (; r < m; ++r) {
    for (int p = 0; p < k; ++p) {
      const float x = a[p * stride + r];
      rows->turned[r * kDepth + p] = x;
      rows->masks[r] |= static_cast<uint64_t>(x != 0) << p;
    }
  }
}

// Columns [first, first + m) of B, `first` a multiple of a panel, as rows.
void MaskColumns(int m, int k, int n, const GemmB& b, int k0, int first, MaskedRows* rows) {
  rows->data = rows->turned;
  rows->stride = kDepth;
  for (int j = 0; j < m; j += kGemmPanel) {
    const int panel = (first + j) / kGemmPanel;
    const bool whole = panel < n / kGemmPanel;
    const int64_t stride = whole ? b.row_stride : kGemmPanel;
    const float* from = (whole ? b.data + panel * b.panel_stride : b.last) + k0 * stride;
    const int columns = Least(kGemmPanel, m - j);
    float* to = rows->turned + j * kDepth;
    TransposeTo(k, columns, from, stride, to, kDepth);
    MaskRows(columns, k, to, kDepth, rows->masks + j);
  }
}

// Some of k of some panels of B: in row p panel i stands at (p * kPanelsMax + i) * kGemmPanel.
struct Block {
  alignas(64) float data[kDepth * kPanelsMax * kGemmPanel];

  void Copy(const GemmB& b, int n, int k0, int depth, int first, int panels) {
    for (int i = 0; i < panels; ++i) {
      const bool whole = first + i < n / kGemmPanel;
      const int64_t stride = whole ? b.row_stride : kGemmPanel;
      const float* from = (whole ? b.data + (first + i) * b.panel_stride : b.last) + k0 * stride;
      for (int p = 0; p < depth; ++p, from += stride) {
        float* to = data + (p * kPanelsMax + i) * kGemmPanel;
        for (int v = 0; v < kVectors; ++v) Store(to + v * kLanes, Load(from + v * kLanes));
      }
    }
  }
};

// Where the chains of a row begin and end, the last panel's apart from the others'.
struct RowChains {
  const float *start, *last_start;
  float *c, *last_c;
};

// The chains of one row: a[p] times row p of the block for every p whose bit is set.
template <int panels>
inline void Row(uint64_t mask, const float* a, const float* block, const RowChains& out) {
  constexpr int vectors = panels * kVectors, last = vectors - kVectors;
  Vec acc[vectors];
#pragma GCC unroll 16
  for (int v = 0; v < vectors; ++v) {
    acc[v] = Load(v < last ? out.start + v * kLanes : out.last_start + (v - last) * kLanes);
  }
  for (; mask != 0; mask &= mask - 1) {
    const int64_t p = __builtin_ctzll(mask);
    const float* b = block + p * (kPanelsMax * kGemmPanel);
    const Vec x = Spread(a[p]);
#pragma GCC unroll 16
    for (int v = 0; v < vectors; ++v) acc[v] = MultiplyAdd(x, Load(b + v * kLanes), acc[v]);
  }
#pragma GCC unroll 16
  for (int v = 0; v < vectors; ++v) {
    Store(v < last ? out.c + v * kLanes : out.last_c + (v - last) * kLanes, acc[v]);
  }
}

// Of all rows; the last panel has `columns` of them.
template <int panels>
void Rows(int m, int columns, const MaskedRows& rows, const float* block, const Chains& out) {
  constexpr int kBefore = (panels - 1) * kGemmPanel;
  alignas(64) float part[kGemmPanel] = {};
  for (int r = 0; r < m; ++r) {
    const Chains to = out.At(r, 0);
    const float* a = rows.data + r * rows.stride;
    if (columns == kGemmPanel) {
      Row<panels>(rows.masks[r], a, block, {to.start, to.start + kBefore, to.c, to.c + kBefore});
      continue;
    }
    __builtin_memcpy(part, to.start + kBefore, columns * sizeof(float));
    Row<panels>(rows.masks[r], a, block, {to.start, part, to.c, part});
    __builtin_memcpy(to.c + kBefore, part, columns * sizeof(float));
  }
}

template <int most = kPanelsMax>
void RowsOf(int panels, int m, int columns, const MaskedRows& rows, const float* block,
            const Chains& out) {
  if (panels == most) return Rows<most>(m, columns, rows, block, out);
  if constexpr (most > 1) RowsOf<most - 1>(panels, m, columns, rows, block, out);
}

bool DownColumns(const GemmA& a) { return a.row_stride == 1 && a.col_stride != 1; }

}  // namespace

bool WorthSkipping(int m, int n, int k, const GemmA& a) {
  if (m < kRowsMin || n < kColumnsMin || k < kDepthMin) return false;
  constexpr int kOneIn = 16;
  const bool down = DownColumns(a);
  const int lines = down ? k : m, width = (down ? m : k) / 8 * 8;
  const int64_t stride = down ? a.col_stride : a.row_stride;
  int64_t seen = 0, zeros = 0;
  for (int i = kOneIn / 2; i < lines; i += kOneIn) {
    const float* line = a.data + i * stride;
    for (int j = 0; j < width; j += 8)
      zeros += 8 - __builtin_popcountll(NonZeros(_mm256_loadu_ps(line + j)));
    seen += width;
  }
  return zeros * 100 >= seen * kZerosMin;
}

void MultiplySkipping(int m, int n, int k, const GemmA& a, const GemmB& b, GemmStart start,
                      const float* bias, float* c) {
  static const float kZeros[kPanelsMax * kGemmPanel] = {};
  const int panels = (n + kGemmPanel - 1) / kGemmPanel;
  const int turns = (panels + kPanelsMax - 1) / kPanelsMax;
  const int strips = (m + kRows - 1) / kRows;
  MaskedRows rows;
  Block block;
  for (int strip = 0; strip < strips; ++strip) {
    const int i = m * strip / strips, count = m * (strip + 1) / strips - i;
    for (int k0 = 0; k0 < k; k0 += kDepth) {
      const int depth = Least(kDepth, k - k0);
      const float* from = a.data + i * a.row_stride + k0 * a.col_stride;
      if (DownColumns(a)) {
        TurnColumns(count, depth, from, a.col_stride, &rows);
      } else {
        rows.data = from;
        rows.stride = a.row_stride;
        MaskRows(count, depth, from, a.row_stride, rows.masks);
      }
      for (int turn = 0; turn < turns; ++turn) {
        const int begin = panels * turn / turns, end = panels * (turn + 1) / turns;
        const int column = begin * kGemmPanel;
        float* to = c + static_cast<int64_t>(i) * n + column;
        Chains out{to, n, to, n};
        if (k0 == 0 && start == GemmStart::kZero) out = {kZeros, 0, to, n};
        if (k0 == 0 && start == GemmStart::kBias) out = {bias + column, 0, to, n};
        block.Copy(b, n, k0, depth, begin, end - begin);
        RowsOf(end - begin, count, Least(kGemmPanel, n - (end - 1) * kGemmPanel), rows, block.data,
               out);
      }
    }
  }
}

bool WorthSkippingB(int m, int n, int k, const GemmA& a, const GemmB& b) {
  constexpr int kOneIn = 16, kDeep = 2 * kDepth;  // Less would not pay for turning C around.
  if (!DownColumns(a) || m < kColumnsMin || n < kRowsMin || k < kDeep) return false;
  int64_t seen = 0, zeros = 0;
  for (int p = kOneIn / 2; p < k; p += kOneIn) {
    for (int j = 0; j + kGemmPanel <= n; j += kGemmPanel) {
      const float* row = b.data + j / kGemmPanel * b.panel_stride + p * b.row_stride;
      for (int v = 0; v < kGemmPanel; v += 8)
        zeros += 8 - __builtin_popcountll(NonZeros(_mm256_loadu_ps(row + v)));
      seen += kGemmPanel;
    }
  }
  return zeros * 100 >= seen * kZerosMinB;
}

// As the product of the transposed, C' += B' A': rows of B' are masked, some columns of A' at a
// time are the block, and their part of C is turned around, added to, and turned back.
int AddSkippingB(int m, int n, int k, const GemmA& a, const GemmB& b, float* c) {
  constexpr int kChunks = 4, kWide = kPanelsMax * kGemmPanel;
  MaskedRows rows[kChunks];
  alignas(64) float part[kRows * kWide];
  Block block;
  const int panels = m / kGemmPanel;
  const int turns = (panels + kPanelsMax - 1) / kPanelsMax;
  const GemmB view{a.data, kGemmPanel, a.col_stride, nullptr};
  for (int k1 = 0; k1 < k; k1 += kChunks * kDepth) {
    const int chunks = Least(kChunks, (k - k1 + kDepth - 1) / kDepth);
    for (int j = 0; j < n; j += kRows) {
      const int count = Least(kRows, n - j);
      for (int i = 0; i < chunks; ++i) {
        const int k0 = k1 + i * kDepth;
        MaskColumns(count, Least(kDepth, k - k0), n, b, k0, j, &rows[i]);
      }
      for (int turn = 0; turn < turns; ++turn) {
        const int begin = panels * turn / turns, end = panels * (turn + 1) / turns;
        const int wide = (end - begin) * kGemmPanel;
        float* const to = c + static_cast<int64_t>(begin) * kGemmPanel * n + j;
        TransposeTo(wide, count, to, n, part, kWide);
        for (int i = 0; i < chunks; ++i) {
          const int k0 = k1 + i * kDepth;
          block.Copy(view, m, k0, Least(kDepth, k - k0), begin, end - begin);
          RowsOf(end - begin, count, kGemmPanel, rows[i], block.data, {part, kWide, part, kWide});
        }
        TransposeTo(count, wide, part, kWide, to, n);
      }
    }
  }
  return panels * kGemmPanel;
}

}  // namespace STARLING_ISA
}  // namespace starling

#endif  // __AVX2__
