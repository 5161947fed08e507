// Matrix products, as a device gives them (device.h).
//
// The promise everything rests on: an element of the result is one chain of
// multiply-adds in the order of k, started from the bias, from what C held or
// from zero. Blocking stores and reloads the chain and never splits it. So an
// element's bits depend on its row of A, its column of B and the instruction
// set, and on neither the number of rows, its place among them, nor packing.
// Zeros of A or B may be left out (gemm_skip.h): that changes no bit but the sign of a zero, and
// hides values of the other that are not finite behind them.
#pragma once

#include <cstdint>

#include "dense_net/real.h"

namespace starling {

// A (m, k) with any strides, so that a transposed matrix needs no copy.
struct GemmA {
  const Real* data;
  int64_t row_stride, col_stride;
};

// B (k, n) as panels of kGemmPanel columns: packed by PackGemmB, or a view of
// a row-major matrix by ViewGemmB, which suits few rows of A.
inline constexpr int kGemmPanel = 16;
struct GemmB {
  const Real* data;
  int64_t panel_stride, row_stride;
  const Real* last;  // The panel that has fewer columns, zero filled; row stride kGemmPanel.
};

enum class GemmStart { kZero, kBias, kAdd };  // kAdd: C += A * B.

// Floats that PackGemmB writes.
inline int64_t PackedGemmFloats(int k, int n) {
  return static_cast<int64_t>(k) * ((n + kGemmPanel - 1) / kGemmPanel) * kGemmPanel;
}
// What PackGemmB left in `data`.
inline GemmB PackedGemmB(int k, int n, const Real* data) {
  const int64_t panel = static_cast<int64_t>(k) * kGemmPanel;
  return {data, panel, kGemmPanel, data + n / kGemmPanel * panel};
}

}  // namespace starling
