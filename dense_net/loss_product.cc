#include <cmath>
#include <utility>

#include "dense_net/losses.h"
#include "dense_net/onnx_graph.h"
#include "dense_net/real.h"

namespace starling {
namespace {

double Sigmoid(double z) { return 1.0 / (1.0 + std::exp(-z)); }

// The log loss of p = sigmoid(a) sigmoid(b). 1 - p = sigmoid(-a) + sigmoid(a)
// sigmoid(-b) loses no digits; the slope along a is (p - y) sigmoid(-a) / (1 - p).
class ProductLossOp : public Op {
 public:
  ProductLossOp(const LossPlace& place, Value a, Value b, int second_output,
                std::string second_name)
      : Op(place.name, {a, b}, 1),
        place_(place),
        second_(second_output),
        second_name_(std::move(second_name)) {}

  bool is_loss() const override { return true; }

  void Forward(const OpTile& tile) const override {
    const Step& step = *tile.step;
    double loss = 0;
    for (int i = 0; i < tile.rows; ++i) {
      const int64_t row = tile.first + i;
      const double a = tile.in[0][i], b = tile.in[1][i], second = Sigmoid(b);
      const double p = Sigmoid(a) * second;
      tile.out[i] = static_cast<Real>(p);
      step.scores[row * step.outputs + place_.output] = tile.out[i];
      step.scores[row * step.outputs + second_] = static_cast<Real>(second);
      if (!step.training) continue;
      const double y = Label(step, row);
      loss -= RowWeight(place_, step, row) *
              (y * (LogSigmoid(a) + LogSigmoid(b)) + (1 - y) * std::log(OneLess(a, b)));
    }
    if (step.training) step.tile_loss[tile.index] += loss;
  }

  void Backward(const OpTile& tile) const override {
    const Step& step = *tile.step;
    for (int i = 0; i < tile.rows; ++i) {
      const int64_t row = tile.first + i;
      const double a = tile.in[0][i], b = tile.in[1][i];
      const double share = RowWeight(place_, step, row) / step.batch->rows;
      const double g = share * (Sigmoid(a) * Sigmoid(b) - Label(step, row)) / OneLess(a, b);
      Give(tile, 0, i, g * Sigmoid(-a));
      Give(tile, 1, i, g * Sigmoid(-b));
    }
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::string second = onnx->Node("Sigmoid", {in[1]});
    const std::string score = onnx->Node("Mul", {onnx->Node("Sigmoid", {in[0]}), second});
    onnx->Output(place_.score, score, 1);
    onnx->Output(second_name_, second, 1);
    return score;
  }

 private:
  static double LogSigmoid(double z) {
    return (z < 0 ? z : 0) - std::log1p(std::exp(-std::fabs(z)));
  }
  static double OneLess(double a, double b) { return Sigmoid(-a) + Sigmoid(a) * Sigmoid(-b); }
  static void Give(const OpTile& tile, int input, int i, double g) {
    Real* out = tile.in_grad[input];
    if (out == nullptr) return;
    out[i] = (tile.in_add[input] ? out[i] : 0) + static_cast<Real>(g);
  }
  float Label(const Step& step, int64_t row) const {
    return step.batch->labels[row * step.labels + place_.label];
  }

  const LossPlace place_;
  const int second_;  // Column of the scores.
  const std::string second_name_;
};

}  // namespace

void ProductLoss(GraphBuilder* graph, const LossPlace& place, Value a, Value b, int second_output) {
  graph->Append(std::make_unique<ProductLossOp>(place, a, b, second_output,
                                                graph->graph().outputs[second_output].name));
}

}  // namespace starling
