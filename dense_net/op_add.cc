#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

class AddOp : public Op {
 public:
  AddOp(std::string name, std::vector<Value> inputs)
      : Op(std::move(name), inputs, inputs[0].width) {}
  std::string Key() const override { return "add"; }

  double ElementFlops() const override {
    return (static_cast<double>(inputs().size()) - 1) * width();
  }
  void Forward(const OpTile& tile) const override {
    const int64_t n = static_cast<int64_t>(tile.rows) * width();
    for (size_t v = 0; v < inputs().size(); ++v)
      tile.kernels().copy(n, tile.in[v], tile.out, v > 0);
  }
  void Backward(const OpTile& tile) const override {
    const int64_t n = static_cast<int64_t>(tile.rows) * width();
    for (size_t v = 0; v < inputs().size(); ++v) {
      if (tile.in_grad[v] == nullptr) continue;
      tile.kernels().copy(n, tile.out_grad, tile.in_grad[v], tile.in_add[v]);
    }
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    std::string sum = in[0];
    for (size_t v = 1; v < in.size(); ++v) sum = onnx->Node("Add", {sum, in[v]});
    return sum;
  }
};

}  // namespace

Value Add(GraphBuilder* graph, std::string name, std::vector<Value> inputs) {
  if (inputs.size() == 1) return inputs[0];
  return graph->Append(std::make_unique<AddOp>(std::move(name), std::move(inputs)));
}

}  // namespace starling
