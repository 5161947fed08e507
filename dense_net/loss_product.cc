#include <utility>

#include "dense_net/losses.h"
#include "dense_net/onnx_graph.h"
#include "dense_net/real.h"

namespace starling {
namespace {

// The log loss of p = sigmoid(a) sigmoid(b).
class ProductLossOp : public Op {
 public:
  ProductLossOp(const LossPlace& place, Value a, Value b, int second_output,
                std::string second_name)
      : Op(place.name, {a, b}, 1),
        place_(place),
        second_(second_output),
        second_name_(std::move(second_name)) {}

  bool is_loss() const override { return true; }

  int64_t ScratchFloats(int tile) const override { return LossFloats(tile) + tile; }

  double ElementFlops() const override { return 3; }
  void Forward(const OpTile& tile) const override {
    const Step& step = *tile.step;
    Real* second = tile.scratch + LossFloats(tile.rows);
    tile.losses().product_score(tile.rows, tile.in[0], tile.in[1], tile.out, second);
    StoreScores(step, place_.output, tile.first, tile.rows, tile.out);
    StoreScores(step, second_, tile.first, tile.rows, second);
    if (!step.training) return;
    tile.losses().product_loss(tile.rows, RowsOf(place_, step, tile.first), tile.in[0], tile.in[1],
                               LossesOf(tile));
    AddLosses(tile);
  }

  void Backward(const OpTile& tile) const override {
    tile.losses().product_loss_backward(
        tile.rows, RowsOf(place_, *tile.step, tile.first), tile.step->share.joint->rows, tile.in[0],
        tile.in[1], tile.in_grad[0], tile.in_add[0], tile.in_grad[1], tile.in_add[1]);
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
