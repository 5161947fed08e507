#include <algorithm>
#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

class SequenceOp : public Op {
 public:
  SequenceOp(std::string name, int sequence, std::vector<SlotSpec> slots, int width)
      : Op(std::move(name), {}, width), sequence_(sequence), slots_(std::move(slots)) {}

  int sequence() const override { return sequence_; }
  bool trainable() const override { return true; }
  bool keeps_gradient() const override { return true; }

  double ElementFlops() const override { return 0; }
  void Forward(const OpTile& tile) const override {
    int column = 0;
    for (const SlotSpec& slot : slots_) {
      const SlotView view = ViewSlot(*tile.step, slot);
      Real* out = tile.out + column;
      for (int64_t row = tile.batch_first; row < tile.batch_first + tile.batch_rows; ++row) {
        const int64_t entry = view.entry_of_row == nullptr ? row : view.entry_of_row[row];
        for (uint32_t v = view.offsets[entry]; v < view.offsets[entry + 1]; ++v, out += width()) {
          std::copy_n(view.rows + view.index[v] * view.width + slot.embedding_offset(),
                      slot.embedding_dim(), out);
        }
      }
      column += slot.embedding_dim();
    }
  }
  // The kept gradient is summed by id once all tiles are done.
  void Backward(const OpTile&) const override {}

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>&,
                                     OnnxGraph* onnx) const override {
    return onnx->SequenceInput(sequence_, name(), width());
  }

 private:
  const int sequence_;
  const std::vector<SlotSpec> slots_;
};

}  // namespace

Value SequenceInput(GraphBuilder* graph, std::string name, std::vector<SlotSpec> slots) {
  SequenceAxis axis;
  int width = 0;
  for (const SlotSpec& slot : slots) width += slot.embedding_dim();
  axis.slots = slots;
  const int sequence = static_cast<int>(graph->graph().sequences.size());
  graph->graph().sequences.push_back(std::move(axis));
  const Value value = graph->Append(
      std::make_unique<SequenceOp>(std::move(name), sequence, std::move(slots), width));
  graph->graph().sequences[sequence].input = value.id;
  return value;
}

}  // namespace starling
