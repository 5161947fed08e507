#include <algorithm>
#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

class PositionLinearOp : public Op {
 public:
  PositionLinearOp(std::string name, Value x, int positions, int out, int64_t weight)
      : Op(std::move(name), {x}, positions * out),
        positions_(positions),
        k_(x.width / positions),
        n_(out),
        weight_(weight) {}

  bool trainable() const override { return true; }
  double ForwardFlops() const override { return 2.0 * positions_ * k_ * n_; }
  double BackwardFlops(bool input_grad) const override {
    return (input_grad ? 4.0 : 2.0) * positions_ * k_ * n_;
  }
  int64_t StateFloats(const Step& step) const override {
    return PackedGemmFloats(k_, n_) + (step.training ? PackedGemmFloats(n_, k_) : 0);
  }
  int64_t ScratchFloats(int) const override { return PackedGemmFloats(kChunk, n_); }
  void Prepare(const Step& step, Real* state) const override {
    const Real* w = step.params + weight_;
    step.device->PackGemmB(k_, n_, w, n_, 1, state);
    if (step.training) step.device->PackGemmB(n_, k_, w, 1, n_, state + PackedGemmFloats(k_, n_));
  }

  double ElementFlops() const override { return 0; }
  void Forward(const OpTile& tile) const override {
    tile.device().Gemm(tile.rows * positions_, n_, k_, {tile.in[0], k_, 1},
                       PackedGemmB(k_, n_, tile.state), GemmStart::kZero, nullptr, tile.out);
  }

  void Backward(const OpTile& tile) const override {
    const int m = tile.rows * positions_;
    for (int first = 0; first < m; first += kChunk) {
      const int chunk = std::min(kChunk, m - first);
      const GemmB g = tile.device().PackGemmB(chunk, n_, tile.out_grad + int64_t{first} * n_, n_, 1,
                                              tile.scratch);
      tile.device().Gemm(k_, n_, chunk, {tile.in[0] + int64_t{first} * k_, 1, k_}, g,
                         GemmStart::kAdd, nullptr, tile.param_grads + weight_);
    }
    if (tile.in_grad[0] == nullptr) return;
    tile.device().Gemm(m, k_, n_, {tile.out_grad, n_, 1},
                       PackedGemmB(n_, k_, tile.state + PackedGemmFloats(k_, n_)),
                       tile.in_add[0] ? GemmStart::kAdd : GemmStart::kZero, nullptr,
                       tile.in_grad[0]);
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::string x = onnx->Reshape(in[0], {-1, positions_, k_});
    return onnx->Reshape(onnx->Node("MatMul", {x, onnx->Param(weight_)}), {-1, width()});
  }

 private:
  static constexpr int kChunk = 256;  // Positions whose gradients are packed at a time.

  const int positions_, k_, n_;
  const int64_t weight_;
};

}  // namespace

Value PositionLinear(GraphBuilder* graph, std::string name, Value x, int positions, int width) {
  const int64_t weight =
      graph->AddParam(name + ".weight", x.width / positions, width, Init::kXavierNormal, true);
  return graph->Append(
      std::make_unique<PositionLinearOp>(std::move(name), x, positions, width, weight));
}

}  // namespace starling
