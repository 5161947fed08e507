#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"
#include "dense_net/real.h"

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

  void Forward(const OpTile& tile) const override {
    for (int i = 0; i < tile.rows; ++i) {
      const Real* a = tile.in[0] + int64_t{i} * k_;
      const Real* b = tile.in[1] + int64_t{i} * k_;
      Real dot = 0;
      for (int j = 0; j < k_; ++j) dot += a[j] * b[j];
      tile.out[i] = scale_ * dot + tile.step->params[bias_];
    }
  }

  void Backward(const OpTile& tile) const override {
    for (int i = 0; i < tile.rows; ++i) {
      const Real g = tile.out_grad[i];
      tile.param_grads[bias_] += g;
      for (int side = 0; side < 2; ++side) {
        if (tile.in_grad[side] == nullptr) continue;
        const Real* other = tile.in[1 - side] + int64_t{i} * k_;
        Real* out = tile.in_grad[side] + int64_t{i} * k_;
        for (int j = 0; j < k_; ++j) {
          out[j] = (tile.in_add[side] ? out[j] : 0) + scale_ * g * other[j];
        }
      }
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
