#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

class LayerNormOp : public Op {
 public:
  LayerNormOp(std::string name, Value x, int positions, int64_t scale, int64_t shift)
      : Op(std::move(name), {x}, x.width),
        positions_(positions),
        n_(x.width / positions),
        scale_(scale),
        shift_(shift) {}

  bool trainable() const override { return true; }
  int64_t ScratchFloats(int tile) const override { return int64_t{2} * tile * positions_; }

  double ElementFlops() const override { return 7.0 * width(); }
  void Forward(const OpTile& tile) const override {
    const Real* params = tile.step->params;
    tile.fields().layer_norm(tile.rows * positions_, n_, tile.in[0], params + scale_,
                             params + shift_, tile.out);
  }
  void Backward(const OpTile& tile) const override {
    const int m = tile.rows * positions_;
    tile.kernels().add_rows(m, n_, tile.out_grad, nullptr, tile.param_grads + shift_);
    tile.fields().layer_norm_backward(m, n_, tile.in[0], tile.step->params + scale_, tile.out_grad,
                                      tile.scratch, tile.param_grads + scale_, tile.in_grad[0],
                                      tile.in_add[0]);
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::string x = onnx->Reshape(in[0], {-1, positions_, n_});
    const std::string centred = onnx->Node("Sub", {x, Mean(x, onnx)});
    const std::string variance = Mean(onnx->Node("Mul", {centred, centred}), onnx);
    const std::string eps = onnx->Float(static_cast<float>(kLayerNormEps));
    const std::string deviation = onnx->Node("Sqrt", {onnx->Node("Add", {variance, eps})});
    const std::string normal = onnx->Node("Div", {centred, deviation});
    const std::string scaled = onnx->Node("Mul", {normal, onnx->Param(scale_)});
    return onnx->Reshape(onnx->Node("Add", {scaled, onnx->Param(shift_)}), {-1, width()});
  }

 private:
  // Of each position.
  static std::string Mean(const std::string& x, OnnxGraph* onnx) {
    return onnx->Node("ReduceMean", {x}, {{"axes", std::vector<int64_t>{2}}});
  }

  const int positions_, n_;
  const int64_t scale_, shift_;
};

}  // namespace

Value LayerNorm(GraphBuilder* graph, std::string name, Value x, int positions) {
  const int n = x.width / positions;
  const int64_t scale = graph->AddParam(name + ".scale", 1, n, Init::kOne, false);
  const int64_t shift = graph->AddParam(name + ".shift", 1, n, Init::kZero, false);
  return graph->Append(std::make_unique<LayerNormOp>(std::move(name), x, positions, scale, shift));
}

}  // namespace starling
