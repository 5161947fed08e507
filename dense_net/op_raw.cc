#include <algorithm>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

class RawOp : public Op {
 public:
  explicit RawOp(int features) : Op("raw", {}, features) {}
  std::string Key() const override { return "raw"; }
  double ElementFlops() const override { return 0; }
  void Forward(const OpTile& tile) const override {
    const float* from = tile.step->share.arrays->dense + tile.first * width();
    std::copy_n(from, static_cast<int64_t>(tile.rows) * width(), tile.out);
  }
  void Backward(const OpTile&) const override {}
  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>&,
                                     OnnxGraph* onnx) const override {
    return onnx->Input(name(), width());
  }
};

}  // namespace

Value RawInput(GraphBuilder* graph, int features) {
  return graph->Append(std::make_unique<RawOp>(features));
}

}  // namespace starling
