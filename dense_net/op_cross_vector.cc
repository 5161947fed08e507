#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

class CrossVectorOp : public Op {
 public:
  CrossVectorOp(std::string name, Value x0, Value u, Value x, int64_t bias)
      : Op(std::move(name), {x0, u, x}, x.width), bias_(bias) {}

  bool trainable() const override { return true; }

  double ElementFlops() const override { return 3.0 * width(); }
  void Forward(const OpTile& tile) const override {
    tile.fields().cross(tile.rows, width(), tile.in[0], tile.in[1], tile.step->params + bias_,
                        tile.in[2], tile.out);
  }

  void Backward(const OpTile& tile) const override {
    const int m = tile.rows, n = width();
    const Real* g = tile.out_grad;
    tile.kernels().add_rows(m, n, g, nullptr, tile.param_grads + bias_);
    if (tile.in_grad[0] != nullptr) {
      tile.fields().scale_rows(m, n, 1, {g, n}, {tile.in[1], 1}, {tile.in_grad[0], n},
                               tile.in_add[0]);
    }
    tile.fields().row_dots(m, n, 1, {g, n}, {tile.in[0], n}, {tile.in_grad[1], 1}, tile.in_add[1]);
    if (tile.in_grad[2] != nullptr) {
      tile.kernels().copy(int64_t{m} * n, g, tile.in_grad[2], tile.in_add[2]);
    }
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::string product = onnx->Node("Mul", {in[0], in[1]});
    return onnx->Node("Add", {onnx->Node("Add", {product, onnx->Param(bias_)}), in[2]});
  }

 private:
  const int64_t bias_;
};

}  // namespace

Value CrossVector(GraphBuilder* graph, std::string name, Value x0, Value u, Value x) {
  const int64_t bias = graph->AddParam(name + ".bias", 1, x.width, Init::kZero, false);
  return graph->Append(std::make_unique<CrossVectorOp>(std::move(name), x0, u, x, bias));
}

}  // namespace starling
