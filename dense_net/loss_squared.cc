#include "dense_net/row_loss.h"

namespace starling {
namespace {

struct SquaredRule {
  static constexpr char kOnnx[] = "Identity";

  static void Score(const Device& device, int m, const Real* z, Real* score) {
    device.kernels().copy(m, z, score, false);
  }
  void Loss(const LossKernels& kernels, int m, const LossRows& rows, const Real* z,
            double* loss) const {
    kernels.squared_loss(m, rows, z, loss);
  }
  void Slope(const LossKernels& kernels, int m, const LossRows& rows, Real n, const Real* z,
             const Real* /*score*/, Real* out, bool add) const {
    kernels.squared_loss_backward(m, rows, n, z, out, add);
  }
};

}  // namespace

void SquaredLoss(GraphBuilder* graph, const LossPlace& place, Value x) {
  AppendRowLoss(graph, place, x, SquaredRule{});
}

}  // namespace starling
