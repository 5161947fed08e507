#include <cmath>
#include <utility>

#include "dense_net/kernels.h"
#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

class ActivationOp : public Op {
 public:
  ActivationOp(std::string name, Value x, MlpOptions::Activation kind)
      : Op(std::move(name), {x}, x.width), kind_(kind) {}

  bool in_place() const override { return true; }
  Fusing fusing() const override {
    return kind_ == MlpOptions::RELU ? Fusing::kTail : Fusing::kLastTail;
  }

  void Forward(const OpTile& tile) const override {
    const int64_t n = static_cast<int64_t>(tile.rows) * width();
    const Real* x = tile.in[0];
    Real* y = tile.out;
    switch (kind_) {
      case MlpOptions::RELU:
        return Kernel().relu(n, x, y);
      case MlpOptions::SIGMOID:
        for (int64_t i = 0; i < n; ++i) y[i] = 1 / (1 + std::exp(-x[i]));
        return;
      case MlpOptions::TANH:
        for (int64_t i = 0; i < n; ++i) y[i] = std::tanh(x[i]);
        return;
    }
  }

  // Each derivative is a function of the output, so the input may be gone.
  void Backward(const OpTile& tile) const override {
    const int64_t n = static_cast<int64_t>(tile.rows) * width();
    const Real* y = tile.out;
    const Real* g = tile.out_grad;
    Real* out = tile.in_grad[0];
    if (out == nullptr) return;
    if (kind_ == MlpOptions::RELU) return Kernel().relu_backward(n, y, g, out, tile.in_add[0]);
    for (int64_t i = 0; i < n; ++i) {
      const Real slope = kind_ == MlpOptions::SIGMOID ? y[i] * (1 - y[i]) : 1 - y[i] * y[i];
      out[i] = (tile.in_add[0] ? out[i] : 0) + g[i] * slope;
    }
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    static constexpr const char* kTypes[] = {"Relu", "Sigmoid", "Tanh"};
    return onnx->Node(kTypes[kind_], in);
  }

 private:
  const MlpOptions::Activation kind_;
};

}  // namespace

Value Activate(GraphBuilder* graph, std::string name, Value x, MlpOptions::Activation kind) {
  return graph->Append(std::make_unique<ActivationOp>(std::move(name), x, kind));
}

}  // namespace starling
