#include "dense_net/row_loss.h"

namespace starling {
namespace {

struct FocalRule {
  static constexpr char kOnnx[] = "Sigmoid";
  double gamma, alpha;

  static void Score(const Device& device, int m, const Real* z, Real* score) {
    device.losses().logistic(m, z, score);
  }
  void Loss(const LossKernels& kernels, int m, const LossRows& rows, const Real* z,
            double* loss) const {
    kernels.focal_loss(m, rows, gamma, alpha, z, loss);
  }
  void Slope(const LossKernels& kernels, int m, const LossRows& rows, Real n, const Real* z,
             const Real* /*score*/, Real* out, bool add) const {
    kernels.focal_loss_backward(m, rows, gamma, alpha, n, z, out, add);
  }
};

}  // namespace

void FocalLoss(GraphBuilder* graph, const LossPlace& place, Value logit, double gamma,
               double alpha) {
  AppendRowLoss(graph, place, logit, FocalRule{gamma, alpha});
}

}  // namespace starling
