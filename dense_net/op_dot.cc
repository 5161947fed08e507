#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

class DotOp : public Op {
 public:
  DotOp(std::string name, Value a, Value b, double scale, int64_t bias)
      : Op(std::move(name), {a, b}, 1),
        k_(a.width),
        scale_(static_cast<Real>(scale)),
        bias_(bias) {}

  bool trainable() const override { return true; }

  double ElementFlops() const override { return 2.0 * k_ + 2; }
  void Forward(const OpTile& tile) const override {
    tile.kernels().spread(tile.rows, 1, tile.step->params + bias_, tile.out);
    tile.fields().row_dots(tile.rows, k_, scale_, {tile.in[0], k_}, {tile.in[1], k_}, {tile.out, 1},
                           true);
  }

  void Backward(const OpTile& tile) const override {
    tile.kernels().add_rows(tile.rows, 1, tile.out_grad, nullptr, tile.param_grads + bias_);
    for (int side = 0; side < 2; ++side) {
      if (tile.in_grad[side] == nullptr) continue;
      tile.fields().scale_rows(tile.rows, k_, scale_, {tile.in[1 - side], k_}, {tile.out_grad, 1},
                               {tile.in_grad[side], k_}, tile.in_add[side]);
    }
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::string scale = onnx->Float(static_cast<float>(scale_));
    const std::string product = onnx->Node("Mul", {onnx->Dot(in[0], in[1]), scale});
    return onnx->Node("Add", {product, onnx->Param(bias_)});
  }

 private:
  const int k_;
  const Real scale_;
  const int64_t bias_;  // Offset.
};

}  // namespace

Value Dot(GraphBuilder* graph, std::string name, Value a, Value b, double scale) {
  const int64_t bias = graph->AddParam(name + ".bias", 1, 1, Init::kZero, false);
  return graph->Append(std::make_unique<DotOp>(std::move(name), a, b, scale, bias));
}

}  // namespace starling
