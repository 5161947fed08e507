// The parts of target attention that are not layers: what its MLP reads, the
// softmax over a row's events, and their weighted sum.
#include <limits>
#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

class AttentionInputOp : public Op {
 public:
  AttentionInputOp(std::string name, Value target, Value events)
      : Op(std::move(name), {target, events}, 4 * target.width),
        d_(target.width),
        sequence_(events.sequence) {}

  int sequence() const override { return sequence_; }

  double ElementFlops() const override { return 2.0 * d_; }  // Difference and product.
  void Forward(const OpTile& tile) const override {
    tile.sequences().attention_input(tile.PositionsOf(sequence_), d_, tile.in[0], tile.in[1],
                                     tile.out);
  }
  void Backward(const OpTile& tile) const override {
    tile.sequences().attention_input_backward(tile.PositionsOf(sequence_), d_, tile.in[0],
                                              tile.in[1], tile.out_grad, tile.in_grad[0],
                                              tile.in_add[0], tile.in_grad[1], tile.in_add[1]);
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::string q = onnx->Spread(in[0], sequence_, d_);
    return onnx->Node("Concat",
                      {q, in[1], onnx->Node("Sub", {q, in[1]}), onnx->Node("Mul", {q, in[1]})},
                      {{"axis", int64_t{1}}});
  }

 private:
  const int d_, sequence_;
};

class SequenceSoftmaxOp : public Op {
 public:
  SequenceSoftmaxOp(std::string name, Value x) : Op(std::move(name), {x}, 1) {}

  double ElementFlops() const override { return kSoftmaxFlops; }
  void Forward(const OpTile& tile) const override {
    tile.sequences().softmax(tile.PositionsOf(sequence()), tile.in[0], tile.out);
  }
  void Backward(const OpTile& tile) const override {
    if (tile.in_grad[0] == nullptr) return;
    tile.sequences().softmax_backward(tile.PositionsOf(sequence()), tile.out, tile.out_grad,
                                      tile.in_grad[0], tile.in_add[0]);
  }
  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::string is = onnx->IsPosition(sequence());
    const std::string x = onnx->Unflatten(in[0], sequence(), 1);
    const std::string low = onnx->Where(is, x, std::numeric_limits<float>::lowest());
    const std::string weights = onnx->Node("Softmax", {low}, {{"axis", int64_t{1}}});
    return onnx->Flatten(onnx->Where(is, weights, 0), 1);  // A row without positions has none.
  }
};

class WeightedSumOp : public Op {
 public:
  WeightedSumOp(std::string name, Value weights, Value x)
      : Op(std::move(name), {weights, x}, x.width), x_sequence_(x.sequence) {}

  int sequence() const override { return -1; }

  double ElementFlops() const override { return 2.0 * width(); }  // One event.
  void Forward(const OpTile& tile) const override {
    tile.sequences().weighted_sum(tile.PositionsOf(x_sequence_), width(), tile.in[0], tile.in[1],
                                  tile.out);
  }
  void Backward(const OpTile& tile) const override {
    tile.sequences().weighted_sum_backward(tile.PositionsOf(x_sequence_), width(), tile.in[0],
                                           tile.in[1], tile.out_grad, tile.in_grad[0],
                                           tile.in_add[0], tile.in_grad[1], tile.in_add[1]);
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::string product =
        onnx->Unflatten(onnx->Node("Mul", {in[0], in[1]}), x_sequence_, width());
    return onnx->Sum(onnx->Where(onnx->IsPosition(x_sequence_), product, 0), 1, false);
  }

 private:
  const int x_sequence_;
};

}  // namespace

Value AttentionInput(GraphBuilder* graph, std::string name, Value target, Value events) {
  return graph->Append(std::make_unique<AttentionInputOp>(std::move(name), target, events));
}
Value SequenceSoftmax(GraphBuilder* graph, std::string name, Value x) {
  return graph->Append(std::make_unique<SequenceSoftmaxOp>(std::move(name), x));
}
Value WeightedSum(GraphBuilder* graph, std::string name, Value weights, Value x) {
  return graph->Append(std::make_unique<WeightedSumOp>(std::move(name), weights, x));
}

}  // namespace starling
