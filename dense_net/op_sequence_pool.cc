#include <limits>
#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

class SequencePoolOp : public Op {
 public:
  SequencePoolOp(std::string name, Value x, SequencePooling kind)
      : Op(std::move(name), {x}, x.width), kind_(kind), x_sequence_(x.sequence) {}

  int sequence() const override { return -1; }

  double ElementFlops() const override { return width(); }  // One event.
  void Forward(const OpTile& tile) const override {
    tile.sequences().pool(tile.PositionsOf(x_sequence_), width(), kind_, tile.in[0], tile.out);
  }
  void Backward(const OpTile& tile) const override {
    if (tile.in_grad[0] == nullptr) return;
    tile.sequences().pool_backward(tile.PositionsOf(x_sequence_), width(), kind_, tile.in[0],
                                   tile.out, tile.out_grad, tile.in_grad[0], tile.in_add[0]);
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::string x = onnx->Unflatten(in[0], x_sequence_, width());
    if (kind_ == SequencePooling::kLast) {
      return onnx->Sum(onnx->Where(onnx->IsLast(x_sequence_), x, 0), 1, false);
    }
    const std::string is = onnx->IsPosition(x_sequence_);
    const std::string lengths = onnx->Reshape(onnx->Lengths(x_sequence_), {-1, 1});
    if (kind_ == SequencePooling::kMax) {
      const std::string most =
          onnx->Node("ReduceMax", {onnx->Where(is, x, std::numeric_limits<float>::lowest())},
                     {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{0}}});
      return onnx->Where(onnx->Node("Greater", {lengths, onnx->Ints({0})}), most, 0);
    }
    const std::string sum = onnx->Sum(onnx->Where(is, x, 0), 1, false);
    if (kind_ == SequencePooling::kSum) return sum;
    const std::string count = onnx->Node("Max", {lengths, onnx->Ints({1})});
    return onnx->Node("Div", {sum, onnx->Node("Cast", {count}, {{"to", int64_t{1}}})});
  }

 private:
  const SequencePooling kind_;
  const int x_sequence_;
};

}  // namespace

Value SequencePool(GraphBuilder* graph, std::string name, Value x, SequencePooling kind) {
  return graph->Append(std::make_unique<SequencePoolOp>(std::move(name), x, kind));
}

}  // namespace starling
