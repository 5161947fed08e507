#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

class OuterOp : public Op {
 public:
  OuterOp(std::string name, Value a, Value b)
      : Op(std::move(name), {a, b}, a.width * b.width), na_(a.width), nb_(b.width) {}

  double ElementFlops() const override { return width(); }
  void Forward(const OpTile& tile) const override {
    tile.fields().outer(tile.rows, na_, nb_, tile.in[0], tile.in[1], tile.out);
  }
  void Backward(const OpTile& tile) const override {
    tile.fields().outer_backward(tile.rows, na_, nb_, tile.in[0], tile.in[1], tile.out_grad,
                                 tile.in_grad[0], tile.in_add[0], tile.in_grad[1], tile.in_add[1]);
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::string a = onnx->Reshape(in[0], {-1, na_, 1});
    const std::string b = onnx->Reshape(in[1], {-1, 1, nb_});
    return onnx->Reshape(onnx->Node("Mul", {a, b}), {-1, width()});
  }

 private:
  const int na_, nb_;
};

}  // namespace

Value Outer(GraphBuilder* graph, std::string name, Value a, Value b) {
  return graph->Append(std::make_unique<OuterOp>(std::move(name), a, b));
}

}  // namespace starling
