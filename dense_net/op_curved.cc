// Activations whose slope is not a function of the output, so that the input
// is kept: GELU, and PReLU with a slope a column that is learned.
#include <cmath>
#include <utility>

#include "dense_net/kernels.h"
#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

class GeluOp : public Op {
 public:
  GeluOp(std::string name, Value x) : Op(std::move(name), {x}, x.width) {}

  void Forward(const OpTile& tile) const override {
    const int64_t n = static_cast<int64_t>(tile.rows) * width();
    for (int64_t i = 0; i < n; ++i) tile.out[i] = tile.in[0][i] * Below(tile.in[0][i]);
  }
  void Backward(const OpTile& tile) const override {
    const int64_t n = static_cast<int64_t>(tile.rows) * width();
    Real* out = tile.in_grad[0];
    for (int64_t i = 0; out != nullptr && i < n; ++i) {
      const Real x = tile.in[0][i];
      const Real density = std::exp(x * x / -2) * static_cast<Real>(M_SQRT1_2 * M_2_SQRTPI / 2);
      const Real grad = tile.out_grad[i] * (Below(x) + x * density);
      out[i] = tile.in_add[0] ? out[i] + grad : grad;
    }
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::string z = onnx->Node("Mul", {in[0], onnx->Float(static_cast<float>(M_SQRT1_2))});
    const std::string twice = onnx->Node("Add", {onnx->Node("Erf", {z}), onnx->Float(1)});
    return onnx->Node("Mul", {in[0], onnx->Node("Mul", {twice, onnx->Float(0.5f)})});
  }

 private:
  // The share of a normal distribution below x.
  static Real Below(Real x) {
    return static_cast<Real>(0.5) * std::erfc(x * static_cast<Real>(-M_SQRT1_2));
  }
};

class PreluOp : public Op {
 public:
  PreluOp(std::string name, Value x, int64_t slope)
      : Op(std::move(name), {x}, x.width), slope_(slope) {}

  bool trainable() const override { return true; }

  void Forward(const OpTile& tile) const override {
    const Real* slope = tile.step->params + slope_;
    for (int i = 0; i < tile.rows; ++i) {
      const Real* x = tile.in[0] + int64_t{i} * width();
      Real* y = tile.out + int64_t{i} * width();
      for (int j = 0; j < width(); ++j) y[j] = x[j] < 0 ? x[j] * slope[j] : x[j];
    }
  }
  void Backward(const OpTile& tile) const override {
    const Real* slope = tile.step->params + slope_;
    Real* slope_grad = tile.param_grads + slope_;
    for (int i = 0; i < tile.rows; ++i) {
      const int64_t at = int64_t{i} * width();
      const Real *x = tile.in[0] + at, *g = tile.out_grad + at;
      for (int j = 0; j < width(); ++j) slope_grad[j] += x[j] < 0 ? g[j] * x[j] : 0;
      if (tile.in_grad[0] == nullptr) continue;
      Real* out = tile.in_grad[0] + at;
      for (int j = 0; j < width(); ++j) {
        const Real grad = x[j] < 0 ? g[j] * slope[j] : g[j];
        out[j] = tile.in_add[0] ? out[j] + grad : grad;
      }
    }
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
