#include <algorithm>
#include <cmath>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

class LogLossOp : public Op {
 public:
  explicit LogLossOp(Value logit) : Op("loss", {logit}, 1) {}
  bool is_loss() const override { return true; }

  void Forward(const OpTile& tile) const override {
    Real* scores = tile.step->scores + tile.first;
    const Real* x = tile.in[0];
    for (int i = 0; i < tile.rows; ++i) {
      scores[i] = tile.out[i] = static_cast<Real>(1.0 / (1.0 + std::exp(-double{x[i]})));
    }
    if (!tile.step->training) return;
    const float* labels = tile.step->batch->labels.data() + tile.first;
    double loss = 0;
    for (int i = 0; i < tile.rows; ++i) {
      const double z = x[i];
      // Not std::max: a NaN must stay one.
      loss += (z < 0 ? 0 : z) - z * labels[i] + std::log1p(std::exp(-std::fabs(z)));
    }
    tile.step->tile_loss[tile.index] += loss;
  }

  void Backward(const OpTile& tile) const override {
    const Batch& batch = *tile.step->batch;
    const Real share = 1 / static_cast<Real>(batch.rows);
    for (int i = 0; i < tile.rows; ++i) {
      tile.in_grad[0][i] = (tile.out[i] - batch.labels[tile.first + i]) * share;
    }
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::string score = onnx->Node("Sigmoid", in);
    onnx->Output("score", score, 1);
    return score;
  }
};

}  // namespace

void LogLoss(GraphBuilder* graph, Value logit) {
  graph->Append(std::make_unique<LogLossOp>(logit));
}

}  // namespace starling
