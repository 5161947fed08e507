#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

class NormalizeOp : public Op {
 public:
  NormalizeOp(std::string name, Value x) : Op(std::move(name), {x}, x.width) {}

  double ElementFlops() const override { return 3.0 * width() + 2; }
  void Forward(const OpTile& tile) const override {
    tile.fields().normalize(tile.rows, width(), tile.in[0], tile.out);
  }
  void Backward(const OpTile& tile) const override {
    if (tile.in_grad[0] == nullptr) return;
    tile.fields().normalize_backward(tile.rows, width(), tile.in[0], tile.out, tile.out_grad,
                                     tile.in_grad[0], tile.in_add[0]);
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::string least = onnx->Float(static_cast<float>(kNormalizeSquareMin));
    const std::string square = onnx->Node("Add", {onnx->Dot(in[0], in[0]), least});
    return onnx->Node("Div", {in[0], onnx->Node("Sqrt", {square})});
  }
};

}  // namespace

Value Normalize(GraphBuilder* graph, std::string name, Value x) {
  return graph->Append(std::make_unique<NormalizeOp>(std::move(name), x));
}

}  // namespace starling
