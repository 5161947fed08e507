#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

class SumPositionsOp : public Op {
 public:
  SumPositionsOp(std::string name, Value x, int positions)
      : Op(std::move(name), {x}, x.width / positions), positions_(positions) {}

  double ElementFlops() const override { return (positions_ - 1.0) * width(); }
  void Forward(const OpTile& tile) const override {
    tile.fields().sum_parts(tile.rows, positions_, width(), tile.in[0], tile.out);
  }
  void Backward(const OpTile& tile) const override {
    if (tile.in_grad[0] == nullptr) return;
    tile.fields().spread_parts(tile.rows, positions_, width(), tile.out_grad, tile.in_grad[0],
                               tile.in_add[0]);
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    return onnx->Sum(onnx->Reshape(in[0], {-1, positions_, width()}), 1, false);
  }

 private:
  const int positions_;
};

}  // namespace

Value SumPositions(GraphBuilder* graph, std::string name, Value x, int positions) {
  return graph->Append(std::make_unique<SumPositionsOp>(std::move(name), x, positions));
}

}  // namespace starling
