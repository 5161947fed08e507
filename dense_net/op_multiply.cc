#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

class MultiplyOp : public Op {
 public:
  MultiplyOp(std::string name, Value a, Value b, double scale)
      : Op(std::move(name), {a, b}, a.width), scale_(static_cast<Real>(scale)) {}

  double ElementFlops() const override { return (scale_ == 1 ? 1.0 : 2.0) * width(); }
  void Forward(const OpTile& tile) const override {
    tile.fields().scaled_multiply(Floats(tile), scale_, tile.in[0], tile.in[1], tile.out, false);
  }
  void Backward(const OpTile& tile) const override {
    for (int v = 0; v < 2; ++v) {
      if (tile.in_grad[v] == nullptr) continue;
      tile.fields().scaled_multiply(Floats(tile), scale_, tile.out_grad, tile.in[1 - v],
                                    tile.in_grad[v], tile.in_add[v]);
    }
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::string scale = onnx->Float(static_cast<float>(scale_));
    return onnx->Node("Mul", {onnx->Node("Mul", {in[0], in[1]}), scale});
  }

 private:
  int64_t Floats(const OpTile& tile) const { return static_cast<int64_t>(tile.rows) * width(); }

  const Real scale_;
};

}  // namespace

Value Multiply(GraphBuilder* graph, std::string name, Value a, Value b, double scale) {
  return graph->Append(std::make_unique<MultiplyOp>(std::move(name), a, b, scale));
}

}  // namespace starling
