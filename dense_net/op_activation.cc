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

  double ElementFlops() const override { return width(); }
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
        return tile.fields().leaky_relu(n, kLeak, tile.in[0], tile.out);
    }
  }

  // Each derivative is a function of the output, so the input may be gone.
  void Backward(const OpTile& tile) const override {
    if (tile.in_grad[0] == nullptr) return;
    const int64_t n = static_cast<int64_t>(tile.rows) * width();
    if (kind_ == MlpOptions::LEAKY_RELU) {
      return tile.fields().leaky_relu_backward(n, kLeak, tile.out, tile.out_grad, tile.in_grad[0],
                                               tile.in_add[0]);
    }
    Slope(tile.kernels())(n, tile.out, tile.out_grad, tile.in_grad[0], tile.in_add[0]);
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    if (kind_ == MlpOptions::LEAKY_RELU) return onnx->Node("LeakyRelu", in);  // 0.01 there too.
    static constexpr const char* kTypes[] = {"Relu", "Sigmoid", "Tanh"};
    return onnx->Node(kTypes[kind_], in);
  }

 private:
  static constexpr Real kLeak = static_cast<Real>(0.01);

  auto Slope(const Kernels& kernels) const -> decltype(Kernels::relu_backward) {
    switch (kind_) {
      case MlpOptions::SIGMOID:
        return kernels.sigmoid_backward;
      case MlpOptions::TANH:
        return kernels.tanh_backward;
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
