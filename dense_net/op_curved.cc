// Activations whose slope is not a function of the output, so that the input
// is kept: GELU, and PReLU with a slope a column that is learned.
#include <cmath>
#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

class GeluOp : public Op {
 public:
  GeluOp(std::string name, Value x) : Op(std::move(name), {x}, x.width) {}

  double ElementFlops() const override { return 5.0 * width(); }
  void Forward(const OpTile& tile) const override {
    tile.fields().gelu(int64_t{tile.rows} * width(), tile.in[0], tile.out);
  }
  void Backward(const OpTile& tile) const override {
    if (tile.in_grad[0] == nullptr) return;
    tile.fields().gelu_backward(int64_t{tile.rows} * width(), tile.in[0], tile.out_grad,
                                tile.in_grad[0], tile.in_add[0]);
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::string z = onnx->Node("Mul", {in[0], onnx->Float(static_cast<float>(M_SQRT1_2))});
    const std::string twice = onnx->Node("Add", {onnx->Node("Erf", {z}), onnx->Float(1)});
    return onnx->Node("Mul", {in[0], onnx->Node("Mul", {twice, onnx->Float(0.5f)})});
  }
};

class PreluOp : public Op {
 public:
  PreluOp(std::string name, Value x, int64_t slope)
      : Op(std::move(name), {x}, x.width), slope_(slope) {}

  bool trainable() const override { return true; }

  double ElementFlops() const override { return 2.0 * width(); }
  void Forward(const OpTile& tile) const override {
    tile.fields().prelu(tile.rows, width(), tile.in[0], tile.step->params + slope_, tile.out);
  }
  void Backward(const OpTile& tile) const override {
    const int m = tile.rows, n = width();
    tile.fields().prelu_slope_grad(m, n, tile.in[0], tile.out_grad, tile.param_grads + slope_);
    if (tile.in_grad[0] == nullptr) return;
    tile.fields().prelu_backward(m, n, tile.in[0], tile.step->params + slope_, tile.out_grad,
                                 tile.in_grad[0], tile.in_add[0]);
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    return onnx->Node("PRelu", {in[0], onnx->Param(slope_)});
  }

 private:
  const int64_t slope_;
};

}  // namespace

Value Gelu(GraphBuilder* graph, std::string name, Value x) {
  return graph->Append(std::make_unique<GeluOp>(std::move(name), x));
}

Value Prelu(GraphBuilder* graph, std::string name, Value x) {
  const int64_t slope = graph->AddParam(name + ".slope", 1, x.width, Init::kQuarter, false);
  return graph->Append(std::make_unique<PreluOp>(std::move(name), x, slope));
}

}  // namespace starling
