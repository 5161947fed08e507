#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

class SoftmaxOp : public Op {
 public:
  SoftmaxOp(std::string name, Value x) : Op(std::move(name), {x}, x.width) {}

  bool in_place() const override { return true; }

  double ElementFlops() const override { return kSoftmaxFlops * width(); }
  void Forward(const OpTile& tile) const override {
    tile.fields().softmax(tile.rows, width(), 1, tile.in[0], tile.out);
  }
  void Backward(const OpTile& tile) const override {
    if (tile.in_grad[0] == nullptr) return;
    tile.fields().softmax_backward(tile.rows, width(), 1, tile.out, tile.out_grad, tile.in_grad[0],
                                   tile.in_add[0]);
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    return onnx->Node("Softmax", in, {{"axis", int64_t{1}}});
  }
};

}  // namespace

Value Softmax(GraphBuilder* graph, std::string name, Value x) {
  return graph->Append(std::make_unique<SoftmaxOp>(std::move(name), x));
}

}  // namespace starling
