// The reference of `bench train`: a bare product by Eigen, the library most
// people would use. Compiled once per instruction set (starling_kernel).
#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>

#define STARLING_JOIN2(a, b) a##b
#define STARLING_JOIN(a, b) STARLING_JOIN2(a, b)

namespace starling {

// C (m, n) = A (m, k) * B (k, n), all row-major.
void STARLING_JOIN(EigenGemm_, STARLING_ISA)(int m, int n, int k, const float* a, const float* b,
                                             float* c) {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Eigen::Map<Matrix>(c, m, n).noalias() =
      Eigen::Map<const Matrix>(a, m, k) * Eigen::Map<const Matrix>(b, k, n);
}

}  // namespace starling
