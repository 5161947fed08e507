// The loops of a CPU (kernels_on.h), compiled without contraction of a * b + c.
#include "dense_net/kernels_on.h"

namespace starling {
namespace STARLING_ISA {
namespace {

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

}  // namespace

extern const Kernels kKernels;
const Kernels kKernels = KernelsOn<Loops>::kTable;

}  // namespace STARLING_ISA
}  // namespace starling
