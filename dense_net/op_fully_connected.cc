#include <algorithm>
#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"
#include "dense_net/shared_product.h"

namespace starling {
namespace {

// Below this many rows, packing the weights costs more than it saves.
constexpr int64_t kPackRowsMin = 48;

class FullyConnectedOp : public Op {
 public:
  FullyConnectedOp(std::string name, Value x, int width, int64_t weight, int64_t bias)
      : Op(std::move(name), {x}, width),
        k_(x.width),
        weight_(weight),
        bias_(bias),
        shared_(x.embedding, x.width, width, weight) {}

  bool trainable() const override { return true; }
  Fusing fusing() const override { return Fusing::kHead; }
  double ForwardFlops() const override { return 2.0 * k_ * width(); }
  double BackwardFlops(bool input_grad) const override {
    return (input_grad ? 4.0 : 2.0) * k_ * width();
  }

  Shares shares() const override { return shared_.possible() ? Shares::kAll : Shares::kNothing; }
  bool takes_requests_apart() const override { return shared_.possible(); }
  int Parts(const Step& step) const override {
    return shared_.Applies(step) ? shared_.Parts(step) : 0;
  }
  void BeforeTiles(const Step& step, int part, Real* state) const override {
    shared_.BeforeTiles(step, part, state);
  }
  void AfterTiles(const Step& step, int part, Real* state, Real* param_grads) const override {
    shared_.AfterTiles(step, part, state, param_grads);
  }

  // The packed weights, and transposed for the backward pass.
  int64_t StateFloats(const Step& step) const override {
    if (shared_.Applies(step)) return shared_.StateFloats(step);
    return PackedGemmFloats(k_, width()) + (step.training ? PackedGemmFloats(width(), k_) : 0);
  }
  int64_t ScratchFloats(int tile) const override {
    const int64_t shared = shared_.possible() ? shared_.ScratchFloats(tile) : 0;
    return std::max({PackedGemmFloats(tile, width()), int64_t{k_} * kGemmPanel, shared});
  }
  void Prepare(const Step& step, Real* state) const override {
    if (shared_.Applies(step)) return shared_.Prepare(step, state);
    const Real* w = step.params + weight_;
    if (!Packs(step)) return;
    step.device->PackGemmB(k_, width(), w, width(), 1, state);
    if (step.training) {
      step.device->PackGemmB(width(), k_, w, 1, width(), state + PackedGemmFloats(k_, width()));
    }
  }

  double ElementFlops() const override { return bias_ < 0 ? 0 : width(); }
  void Forward(const OpTile& tile) const override {
    const Real* w = tile.step->params + weight_;
    const Real* bias = bias_ < 0 ? nullptr : tile.step->params + bias_;
    if (width() == 1) {
      return tile.device().RowDots(tile.rows, k_, tile.in[0], w, bias == nullptr ? 0 : *bias,
                                   tile.out);
    }
    if (shared_.Applies(*tile.step)) return shared_.Forward(tile, bias);
    const GemmB b = Packs(*tile.step) ? PackedGemmB(k_, width(), tile.state)
                                      : tile.device().ViewGemmB(k_, width(), w, tile.scratch);
    tile.device().Gemm(tile.rows, width(), k_, {tile.in[0], k_, 1}, b,
                       bias == nullptr ? GemmStart::kZero : GemmStart::kBias, bias, tile.out);
  }

  void Backward(const OpTile& tile) const override {
    const int m = tile.rows, n = width();
    Real* grads = tile.param_grads;
    if (bias_ >= 0) tile.kernels().add_rows(m, n, tile.out_grad, nullptr, grads + bias_);
    if (shared_.Applies(*tile.step)) return shared_.Backward(tile);
    if (n == 1) {
      tile.kernels().add_rows(m, k_, tile.in[0], tile.out_grad, grads + weight_);
    } else {
      const GemmB g = tile.device().PackGemmB(m, n, tile.out_grad, n, 1, tile.scratch);
      tile.device().Gemm(k_, n, m, {tile.in[0], 1, k_}, g, GemmStart::kAdd, nullptr,
                         grads + weight_);
    }
    if (tile.in_grad[0] == nullptr) return;
    tile.device().Gemm(
        m, k_, n, {tile.out_grad, n, 1}, PackedGemmB(n, k_, tile.state + PackedGemmFloats(k_, n)),
        tile.in_add[0] ? GemmStart::kAdd : GemmStart::kZero, nullptr, tile.in_grad[0]);
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::string product = onnx->Node("MatMul", {in[0], onnx->Param(weight_)});
    return bias_ < 0 ? product : onnx->Node("Add", {product, onnx->Param(bias_)});
  }

 private:
  static bool Packs(const Step& step) { return step.training || step.batch->rows >= kPackRowsMin; }

  const int k_;
  const int64_t weight_, bias_;  // Offsets; bias -1: none.
  const SharedProduct shared_;
};

}  // namespace

Value FullyConnected(GraphBuilder* graph, std::string name, Value x,
                     const FullyConnectedOptions& options) {
  const int64_t weight =
      graph->AddParam(name + ".weight", x.width, options.width, options.init, true);
  const int64_t bias =
      options.bias ? graph->AddParam(name + ".bias", 1, options.width, Init::kZero, false) : -1;
  return graph->Append(
      std::make_unique<FullyConnectedOp>(std::move(name), x, options.width, weight, bias));
}

}  // namespace starling
