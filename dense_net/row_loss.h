// RowLossOp: a loss that looks at one row at a time. A Rule gives
//   Real Score(Real z)                     of the model's number z,
//   double Loss(double z, double y)        against label y,
//   Real Slope(Real z, Real s, Real y)     of the loss along z, s being the score,
//   const char* kOnnx                      the ONNX operator that makes z the score.
#pragma once

#include <memory>
#include <utility>

#include "dense_net/losses.h"
#include "dense_net/onnx_graph.h"
#include "dense_net/real.h"

namespace starling {

template <typename Rule>
class RowLossOp : public Op {
 public:
  RowLossOp(const LossPlace& place, Value x, Rule rule)
      : Op(place.name, {x}, 1), place_(place), rule_(rule) {}

  bool is_loss() const override { return true; }

  void Forward(const OpTile& tile) const override {
    const Step& step = *tile.step;
    const Real* x = tile.in[0];
    for (int i = 0; i < tile.rows; ++i) tile.out[i] = rule_.Score(x[i]);
    for (int i = 0; place_.output >= 0 && i < tile.rows; ++i) {
      step.scores[(tile.first + i) * step.outputs + place_.output] = tile.out[i];
    }
    if (!step.training) return;
    double loss = 0;
    for (int i = 0; i < tile.rows; ++i) {
      loss += RowWeight(place_, step, tile.first + i) * rule_.Loss(x[i], Label(tile, i));
    }
    step.tile_loss[tile.index] += loss;
  }

  void Backward(const OpTile& tile) const override {
    Real* out = tile.in_grad[0];
    if (out == nullptr) return;
    const Real rows = static_cast<Real>(tile.step->batch->rows);
    for (int i = 0; i < tile.rows; ++i) {
      const Real share = static_cast<Real>(RowWeight(place_, *tile.step, tile.first + i)) / rows;
      const Real g = rule_.Slope(tile.in[0][i], tile.out[i], Label(tile, i)) * share;
      out[i] = tile.in_add[0] ? out[i] + g : g;
    }
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::string score = onnx->Node(Rule::kOnnx, in);
    if (place_.output >= 0) onnx->Output(place_.score, score, 1);
    return score;
  }

 private:
  float Label(const OpTile& tile, int i) const {
    return tile.step->batch->labels[(tile.first + i) * tile.step->labels + place_.label];
  }

  const LossPlace place_;
  const Rule rule_;
};

template <typename Rule>
void AppendRowLoss(GraphBuilder* graph, const LossPlace& place, Value x, Rule rule) {
  graph->Append(std::make_unique<RowLossOp<Rule>>(place, x, std::move(rule)));
}

}  // namespace starling
