#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

class ActivationOp : public Op {
 public:
  ActivationOp(std::string name, Value x, MlpOptions::Activation kind)
      : Op(std::move(name), {x}, x.width), kind_(kind) {}

  std::string Key() const override { return "activation " + std::to_string(kind_); }
  bool in_place() const override { return true; }
  Fusing fusing() const override {
    return kind_ == MlpOptions::RELU ? Fusing::kTail : Fusing::kLastTail;
  }

  void Forward(const OpTile& tile) const override {
    const int64_t n = static_cast<int64_t>(tile.rows) * width();
    switch (kind_) {
      case MlpOptions::RELU:
        return tile.kernels().relu(n, tile.in[0], tile.out);
      case MlpOptions::SIGMOID:
        return tile.kernels().sigmoid(n, tile.in[0], tile.out);
      case MlpOptions::TANH:
        return tile.kernels().tanh(n, tile.in[0], tile.out);
      default:  // LEAKY_RELU; the others are ops of their own.
        for (int64_t i = 0; i < n; ++i) {
          tile.out[i] = tile.in[0][i] < 0 ? tile.in[0][i] * kLeak : tile.in[0][i];
        }
    }
  }

  // Each derivative is a function of the output, so the input may be gone.
  void Backward(const OpTile& tile) const override {
    if (tile.in_grad[0] == nullptr) return;
    Slope(tile.kernels())(static_cast<int64_t>(tile.rows) * width(), tile.out, tile.out_grad,
                          tile.in_grad[0], tile.in_add[0]);
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    if (kind_ == MlpOptions::LEAKY_RELU) return onnx->Node("LeakyRelu", in);  // 0.01 there too.
    static constexpr const char* kTypes[] = {"Relu", "Sigmoid", "Tanh"};
    return onnx->Node(kTypes[kind_], in);
  }

 private:
  static constexpr Real kLeak = static_cast<Real>(0.01);

  static void LeakyBackward(int64_t n, const Real* y, const Real* g, Real* out, bool add) {
    for (int64_t i = 0; i < n; ++i) {
      const Real grad = y[i] > 0 ? g[i] : g[i] * kLeak;
      out[i] = add ? out[i] + grad : grad;
    }
  }
  auto Slope(const Kernels& kernels) const -> decltype(Kernels::relu_backward) {
    switch (kind_) {
      case MlpOptions::SIGMOID:
        return kernels.sigmoid_backward;
      case MlpOptions::TANH:
        return kernels.tanh_backward;
      case MlpOptions::LEAKY_RELU:
        return LeakyBackward;
      default:
        return kernels.relu_backward;
    }
  }

  const MlpOptions::Activation kind_;
};

}  // namespace

Value Activate(GraphBuilder* graph, std::string name, Value x, MlpOptions::Activation kind) {
  if (kind == MlpOptions::GELU) return Gelu(graph, std::move(name), x);
  if (kind == MlpOptions::PRELU) return Prelu(graph, std::move(name), x);
  if (kind == MlpOptions::DICE) return Dice(graph, std::move(name), x);
  return graph->Append(std::make_unique<ActivationOp>(std::move(name), x, kind));
}

}  // namespace starling
