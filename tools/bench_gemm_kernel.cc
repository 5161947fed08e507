// The bare product by Eigen, compiled once per instruction set (starling_kernel).
#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>

#include "tools/bench_gemm.h"

#define STARLING_JOIN2(a, b) a##b
#define STARLING_JOIN(a, b) STARLING_JOIN2(a, b)

namespace starling {
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Input = Eigen::Map<const Matrix>;

template <typename A, typename B>
void Multiply(const BareProduct& p, const A& a, const B& b) {
  Eigen::Map<Matrix> c(p.c, p.m, p.n);
  if (p.add) {
    c.noalias() += a * b;
  } else {
    c.noalias() = a * b;
  }
}

}  // namespace

void STARLING_JOIN(EigenGemm_, STARLING_ISA)(const BareProduct& p) {
  if (p.a_transposed) return Multiply(p, Input(p.a, p.k, p.m).transpose(), Input(p.b, p.k, p.n));
  const Input a(p.a, p.m, p.k);
  if (p.b_transposed) return Multiply(p, a, Input(p.b, p.n, p.k).transpose());
  Multiply(p, a, Input(p.b, p.k, p.n));
}

}  // namespace starling
