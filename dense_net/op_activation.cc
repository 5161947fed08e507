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
    static constexpr const char* kTypes[] = {"Relu", "Sigmoid", "Tanh"};
    return onnx->Node(kTypes[kind_], in);
  }

 private:
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
  return graph->Append(std::make_unique<ActivationOp>(std::move(name), x, kind));
}

}  // namespace starling
