#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

class LinearOp : public Op {
 public:
  LinearOp(std::vector<SlotSpec> slots, int64_t bias)
      : Op("linear", {}, 1), slots_(std::move(slots)), bias_(bias) {}

  bool trainable() const override { return true; }
  bool keeps_gradient() const override { return true; }
  int64_t ScratchFloats(int tile) const override { return tile; }

  double ElementFlops() const override {
    return static_cast<double>(slots_.size()) + 1;
  }  // One id a slot.
  void Forward(const OpTile& tile) const override {
    tile.kernels().spread(tile.rows, 1, tile.step->params + bias_, tile.out);
    for (const SlotSpec& slot : slots_) {
      tile.kernels().pool(ViewSlot(*tile.step, slot), tile.first, tile.rows, slot.linear_offset(),
                          1, tile.scratch, 1);
      tile.kernels().copy(tile.rows, tile.scratch, tile.out, true);
    }
  }
  void Backward(const OpTile& tile) const override {
    tile.kernels().add_rows(tile.rows, 1, tile.out_grad, nullptr, tile.param_grads + bias_);
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>&,
                                     OnnxGraph* onnx) const override {
    return onnx->Node("Add", {onnx->Input(name(), 1), onnx->Param(bias_)});
  }

 private:
  const std::vector<SlotSpec> slots_;
  const int64_t bias_;
};

}  // namespace

Value LinearInput(GraphBuilder* graph, const GraphSpec& spec) {
  const int64_t bias = graph->AddParam("linear.bias", 1, 1, Init::kZero, false);
  Value value = graph->Append(std::make_unique<LinearOp>(PooledSlots(spec), bias));
  graph->graph().linear = value.id;
  return value;
}

}  // namespace starling
