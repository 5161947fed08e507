#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"
#include "dense_net/shared_slots.h"

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
  // Where requests stand apart (shared_slots.h), the sum of each one's weights is taken once.
  int64_t StateFloats(const Step& step) const override {
    return Apart(step) ? 2 * int64_t{step.shared->requests} : 0;
  }
  int Parts(const Step& step) const override { return Apart(step) ? 1 : 0; }
  void BeforeTiles(const Step& step, int, Real* state) const override {
    const int requests = step.shared->requests;
    Real* weights = state + requests;
    step.device->kernels().fill(requests, 0, state);
    step.shared->ForApart([&](const SharedSlot& slot) {
      for (int p = slot.part; p < slot.part + slot.parts; ++p) {
        step.device->kernels().pool(step.shared->parts[p].entries, 0, requests,
                                    slots_[p].linear_offset(), 1, weights, 1);
        step.device->kernels().copy(requests, weights, state, true);
      }
    });
  }
  void Forward(const OpTile& tile) const override {
    tile.kernels().spread(tile.rows, 1, tile.step->params + bias_, tile.out);
    if (Apart(*tile.step)) {
      const GatheredRows of_requests = {tile.state,
                                        tile.step->batch->request_of_row.data() + tile.first};
      tile.fields().add_gathered(tile.rows, 1, 1, &of_requests, tile.out);
    }
    int column = 0;
    for (const SlotSpec& slot : slots_) {
      const int at = column;
      column += slot.embedding_dim();
      if (Apart(*tile.step) && !tile.step->shared->InRows(at)) continue;
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
  static bool Apart(const Step& step) {
    return step.shared != nullptr && step.shared->requests_apart;
  }

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
