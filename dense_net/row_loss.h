// RowLossOp: a loss that looks at one row at a time. A Rule gives, each by a kernel,
//   void Score(device, m, z, score)                      of the model's numbers z (m),
//   void Loss(kernels, m, rows, z, loss)                  of each row,
//   void Slope(kernels, m, rows, n, z, score, out, add)   along z, in the mean over n rows,
//   const char* kOnnx                                     the ONNX operator that makes z the score.
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
  int64_t ScratchFloats(int tile) const override { return LossFloats(tile); }
  double ElementFlops() const override { return 1; }  // The score.

  void Forward(const OpTile& tile) const override {
    rule_.Score(tile.device(), tile.rows, tile.in[0], tile.out);
    StoreScores(*tile.step, place_.output, tile.first, tile.rows, tile.out);
    if (!tile.step->training) return;
    rule_.Loss(tile.losses(), tile.rows, RowsOf(place_, *tile.step, tile.first), tile.in[0],
               LossesOf(tile));
    AddLosses(tile);
  }

  void Backward(const OpTile& tile) const override {
    if (tile.in_grad[0] == nullptr) return;
    rule_.Slope(tile.losses(), tile.rows, RowsOf(place_, *tile.step, tile.first),
                static_cast<Real>(tile.step->share.joint->rows), tile.in[0], tile.out,
                tile.in_grad[0], tile.in_add[0]);
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::string score = onnx->Node(Rule::kOnnx, in);
    if (place_.output >= 0) onnx->Output(place_.score, score, 1);
    return score;
  }

 private:
  const LossPlace place_;
  const Rule rule_;
};

template <typename Rule>
void AppendRowLoss(GraphBuilder* graph, const LossPlace& place, Value x, Rule rule) {
  graph->Append(std::make_unique<RowLossOp<Rule>>(place, x, std::move(rule)));
}

}  // namespace starling
