#include "dense_net/row_loss.h"

namespace starling {
namespace {

struct LogRule {
  static constexpr char kOnnx[] = "Sigmoid";
  double extra;  // Of a positive's weight, beyond 1.

  static void Score(const Device& device, int m, const Real* z, Real* score) {
    device.losses().logistic(m, z, score);
  }
  void Loss(const LossKernels& kernels, int m, const LossRows& rows, const Real* z,
            double* loss) const {
    kernels.log_loss(m, rows, extra, z, loss);
  }
  void Slope(const LossKernels& kernels, int m, const LossRows& rows, Real n, const Real* /*z*/,
             const Real* score, Real* out, bool add) const {
    kernels.log_loss_backward(m, rows, extra, n, score, out, add);
  }
};

}  // namespace

void LogLoss(GraphBuilder* graph, const LossPlace& place, Value logit, double positive_weight) {
  AppendRowLoss(graph, place, logit, LogRule{positive_weight - 1});
}

}  // namespace starling
