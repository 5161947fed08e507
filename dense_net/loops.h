// How a CPU goes through the functors of kernels_on.h: loops, which the
// compiler vectorises for the instruction set it compiles for.
#pragma once

#include <cstdint>

#include "dense_net/real.h"

namespace starling {
namespace STARLING_ISA {

struct Loops {
  static constexpr bool kRowsInOrder = true;
  template <typename Fn>
  static void Elements(int64_t n, const Fn& fn) {
    for (int64_t i = 0; i < n; ++i) fn(i);
  }
  template <typename Fn>
  static void Matrix(int m, int n, const Fn& fn) {
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j) fn(i, j);
  }
  template <typename Fn>
  static void Columns(int m, int n, const Fn& fn) {
    Matrix(m, n, fn);
  }
  template <typename Fn>
  static void Rows(int m, const Fn& fn) {
    for (int i = 0; i < m; ++i) fn(i);
  }
  template <typename Fn>
  static void Rows(int m, int /*floats*/, Real* scratch, const Fn& fn) {
    for (int i = 0; i < m; ++i) fn(i, scratch);
  }
};

}  // namespace STARLING_ISA
}  // namespace starling
