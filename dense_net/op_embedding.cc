#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"
#include "dense_net/shared_slots.h"

namespace starling {

SlotView ViewSlot(const Step& step, const SlotSpec& spec) {
  const Batch& batch = *step.batch;
  const Slot& slot = batch.tables[spec.table()].slots[spec.slot()];
  const bool by_request = slot.entries() == Axis::kRequest && !batch.request_of_row.empty();
  const BatchArrays& arrays = *step.share.arrays;
  const SlotArrays& placed = arrays.tables[spec.table()].slots[spec.slot()];
  SlotView view;
  view.offsets = placed.offsets;
  view.index = placed.index;
  view.weights = placed.weights;
  view.entry_of_row = by_request ? arrays.request_of_row : nullptr;
  view.rows = step.rows[spec.table()].data();
  const size_t ids = batch.tables[spec.table()].ids.size();
  view.width = ids == 0 ? 0 : static_cast<int64_t>(step.rows[spec.table()].size() / ids);
  return view;
}

std::vector<SlotSpec> PooledSlots(const GraphSpec& spec) {
  std::vector<SlotSpec> slots;
  for (const SlotSpec& slot : spec.slots()) {
    if (!slot.has_sequence()) slots.push_back(slot);
  }
  return slots;
}

namespace {

class EmbeddingOp : public Op {
 public:
  EmbeddingOp(std::vector<SlotSpec> slots, int width)
      : Op("embedding", {}, width), slots_(std::move(slots)) {}

  std::string Key() const override { return "embedding"; }
  bool trainable() const override { return true; }
  bool keeps_gradient() const override { return true; }
  int embedding() const override { return width(); }

  double ElementFlops() const override { return width(); }  // One id a slot.
  void Forward(const OpTile& tile) const override {
    const SharedSlots* shared = tile.step->shared;
    int column = 0;
    for (const SlotSpec& slot : slots_) {
      if (shared == nullptr || shared->InRows(column)) {
        tile.kernels().pool(ViewSlot(*tile.step, slot), tile.first, tile.rows,
                            slot.embedding_offset(), slot.embedding_dim(), tile.out + column,
                            width());
      }
      column += slot.embedding_dim();
    }
  }
  // Gradients of requests that stand apart are added to zeros.
  int Parts(const Step& step) const override {
    return step.shared != nullptr && step.shared->requests_apart ? 1 : 0;
  }
  void BeforeTiles(const Step& step, int, Real*) const override {
    step.shared->ForApart([&](const SharedSlot& slot) {
      for (int q = 0; q < slot.count; ++q) {
        step.device->kernels().fill(
            slot.dim, 0,
            step.shared->gradient + slot.first_row[q] * step.shared->stride + slot.column);
      }
    });
  }
  // The kept gradient is summed by id once all tiles are done.
  void Backward(const OpTile&) const override {}

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>&,
                                     OnnxGraph* onnx) const override {
    return onnx->Input(name(), width());
  }

 private:
  const std::vector<SlotSpec> slots_;
};

}  // namespace

Value EmbeddingInput(GraphBuilder* graph, const GraphSpec& spec) {
  int width = 0;
  const std::vector<SlotSpec> slots = PooledSlots(spec);
  for (const SlotSpec& slot : slots) width += slot.embedding_dim();
  Value value = graph->Append(std::make_unique<EmbeddingOp>(slots, width));
  graph->graph().embedding = value.id;
  return value;
}

}  // namespace starling
