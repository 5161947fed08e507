#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

std::vector<Value> Inputs(Value weights, const std::vector<Value>& experts) {
  std::vector<Value> inputs = {weights};
  inputs.insert(inputs.end(), experts.begin(), experts.end());
  return inputs;
}

// Input 0 holds the weights; the experts follow, side by side in each input.
class MixOp : public Op {
 public:
  MixOp(std::string name, Value weights, const std::vector<Value>& experts, int width)
      : Op(std::move(name), Inputs(weights, experts), width) {}

  double ElementFlops() const override {
    return 2.0 * (static_cast<double>(inputs().size()) - 1) * width();
  }
  void Forward(const OpTile& tile) const override {
    ForExperts([&](size_t input, int column, int gate) {
      tile.fields().scale_rows(tile.rows, width(), 1, Columns(tile.in[input], input, column),
                               Columns(tile.in[0], 0, gate), {tile.out, width()}, gate > 0);
    });
  }

  void Backward(const OpTile& tile) const override {
    const RowsIn g = {tile.out_grad, width()};
    ForExperts([&](size_t input, int column, int gate) {
      if (tile.in_grad[0] != nullptr) {
        tile.fields().row_dots(tile.rows, width(), 1, g, Columns(tile.in[input], input, column),
                               Columns(tile.in_grad[0], 0, gate), tile.in_add[0]);
      }
      if (tile.in_grad[input] != nullptr) {
        tile.fields().scale_rows(tile.rows, width(), 1, g, Columns(tile.in[0], 0, gate),
                                 Columns(tile.in_grad[input], input, column), tile.in_add[input]);
      }
    });
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::vector<std::string> experts(in.begin() + 1, in.end());
    const std::string all = onnx->Node("Concat", experts, {{"axis", int64_t{1}}});
    const int64_t gates = inputs()[0].width;
    const std::string weights = onnx->Reshape(in[0], {-1, 1, gates});
    const std::string mixed =
        onnx->Node("MatMul", {weights, onnx->Reshape(all, {-1, gates, width()})});
    return onnx->Reshape(mixed, {-1, width()});
  }

 private:
  // Calls fn(input, first column in it, number among all) for each expert.
  template <typename Fn>
  void ForExperts(const Fn& fn) const {
    int gate = 0;
    for (size_t v = 1; v < inputs().size(); ++v) {
      for (int column = 0; column < inputs()[v].width; column += width()) fn(v, column, gate++);
    }
  }
  // From a column of an input on.
  template <typename T>
  Strided<T> Columns(T* matrix, size_t input, int column) const {
    return {matrix + column, inputs()[input].width};
  }
};

}  // namespace

Value Mix(GraphBuilder* graph, std::string name, Value weights, const std::vector<Value>& experts,
          int width) {
  return graph->Append(std::make_unique<MixOp>(std::move(name), weights, experts, width));
}

}  // namespace starling
