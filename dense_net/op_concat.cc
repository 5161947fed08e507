#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"
#include "dense_net/shared_slots.h"

namespace starling {
namespace {

int WidthOf(const std::vector<Value>& inputs) {
  int width = 0;
  for (const Value& input : inputs) width += input.width;
  return width;
}

class ConcatOp : public Op {
 public:
  ConcatOp(std::string name, std::vector<Value> inputs)
      : Op(std::move(name), inputs, WidthOf(inputs)) {}
  std::string Key() const override { return "concat"; }
  int embedding() const override { return inputs()[0].embedding; }

  bool takes_requests_apart() const override { return true; }

  double ElementFlops() const override { return 0; }
  void Forward(const OpTile& tile) const override {
    Real* out = tile.out;
    for (size_t v = 0; v < inputs().size(); ++v) {
      const int n = inputs()[v].width;
      ForColumns(tile, v, [&](int begin, int count) {
        tile.fields().copy_rows(tile.rows, count, {tile.in[v] + begin, n}, {out + begin, width()},
                                false);
      });
      out += n;
    }
  }
  void Backward(const OpTile& tile) const override {
    const Real* g = tile.out_grad;
    for (size_t v = 0; v < inputs().size(); ++v) {
      const int n = inputs()[v].width;
      if (tile.in_grad[v] != nullptr) {
        ForColumns(tile, v, [&](int begin, int count) {
          tile.fields().copy_rows(tile.rows, count, {g + begin, width()},
                                  {tile.in_grad[v] + begin, n}, tile.in_add[v]);
        });
      }
      g += n;
    }
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    return onnx->Node("Concat", in, {{"axis", int64_t{1}}});
  }

 private:
  template <typename Fn>
  void ForColumns(const OpTile& tile, size_t v, const Fn& fn) const {
    SharedSlots::ForColumns(tile.step->shared, inputs()[v].embedding, inputs()[v].width, fn);
  }
};

}  // namespace

Value Concat(GraphBuilder* graph, std::string name, std::vector<Value> inputs) {
  if (inputs.size() == 1) return inputs[0];
  return graph->Append(std::make_unique<ConcatOp>(std::move(name), std::move(inputs)));
}

}  // namespace starling
