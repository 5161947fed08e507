#include <algorithm>
#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

class GroupedLinearOp : public Op {
 public:
  GroupedLinearOp(std::string name, Value x, int groups, int width, int64_t weight, int64_t bias)
      : Op(std::move(name), {x}, groups * width),
        groups_(groups),
        k_(x.width / groups),
        n_(width),
        weight_(weight),
        bias_(bias) {}

  bool trainable() const override { return true; }
  double ForwardFlops() const override { return 2.0 * groups_ * k_ * n_; }
  double BackwardFlops(bool input_grad) const override {
    return (input_grad ? 4.0 : 2.0) * groups_ * k_ * n_;
  }

  // Each group's packed weights, then, for the backward pass, transposed.
  int64_t StateFloats(const Step& step) const override {
    return groups_ * (Packed() + (step.training ? PackedTransposed() : 0));
  }
  // A packed gradient, and a dense block of a group's input or output.
  int64_t ScratchFloats(int tile) const override {
    return PackedGemmFloats(tile, n_) + int64_t{tile} * std::max(k_, n_);
  }

  void Prepare(const Step& step, Real* state) const override {
    for (int g = 0; g < groups_; ++g) {
      const Real* w = step.params + weight_ + int64_t{g} * k_ * n_;
      step.device->PackGemmB(k_, n_, w, n_, 1, state + g * Packed());
      if (!step.training) continue;
      step.device->PackGemmB(n_, k_, w, 1, n_, state + groups_ * Packed() + g * PackedTransposed());
    }
  }

  double ElementFlops() const override { return width(); }
  void Forward(const OpTile& tile) const override {
    const int m = tile.rows;
    for (int g = 0; g < groups_; ++g) {
      const Real* bias = bias_ < 0 ? nullptr : tile.step->params + bias_ + int64_t{g} * n_;
      tile.device().Gemm(m, n_, k_, {tile.in[0] + int64_t{g} * k_, groups_ * k_, 1},
                         PackedGemmB(k_, n_, tile.state + g * Packed()),
                         bias == nullptr ? GemmStart::kZero : GemmStart::kBias, bias, tile.scratch);
      tile.fields().copy_rows(m, n_, {tile.scratch, n_}, {tile.out + int64_t{g} * n_, width()},
                              false);
    }
  }

  void Backward(const OpTile& tile) const override {
    const int m = tile.rows, x_width = groups_ * k_;
    Real* grads = tile.param_grads;
    if (bias_ >= 0) tile.kernels().add_rows(m, width(), tile.out_grad, nullptr, grads + bias_);
    for (int g = 0; g < groups_; ++g) {
      const Real* out_grad = tile.out_grad + int64_t{g} * n_;
      const Real* x = tile.in[0] + int64_t{g} * k_;
      Real* block = tile.scratch + PackedGemmFloats(m, n_);
      tile.device().Gemm(k_, n_, m, {x, 1, x_width},
                         tile.device().PackGemmB(m, n_, out_grad, width(), 1, tile.scratch),
                         GemmStart::kAdd, nullptr, grads + weight_ + int64_t{g} * k_ * n_);
      if (tile.in_grad[0] == nullptr) continue;
      const Real* turned = tile.state + groups_ * Packed() + g * PackedTransposed();
      tile.device().Gemm(m, k_, n_, {out_grad, width(), 1}, PackedGemmB(n_, k_, turned),
                         GemmStart::kZero, nullptr, block);
      tile.fields().copy_rows(m, k_, {block, k_}, {tile.in_grad[0] + int64_t{g} * k_, x_width},
                              tile.in_add[0]);
    }
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::string product = onnx->GroupMatMul(in[0], weight_, {groups_, k_, n_});
    if (bias_ < 0) return product;
    return onnx->Node("Add", {product, onnx->Param(bias_, {1, width()})});
  }

 private:
  int64_t Packed() const { return PackedGemmFloats(k_, n_); }
  int64_t PackedTransposed() const { return PackedGemmFloats(n_, k_); }
  const int groups_, k_, n_;
  const int64_t weight_, bias_;  // Offsets: (groups, k, n) and (groups, n); bias -1: none.
};

}  // namespace

Value GroupedLinear(GraphBuilder* graph, std::string name, Value x, int groups, int width,
                    bool bias) {
  const int64_t weight =
      graph->AddParam(name + ".weight", x.width, width, Init::kXavierNormal, true);
  const int64_t b = bias ? graph->AddParam(name + ".bias", groups, width, Init::kZero, false) : -1;
  return graph->Append(
      std::make_unique<GroupedLinearOp>(std::move(name), x, groups, width, weight, b));
}

}  // namespace starling
