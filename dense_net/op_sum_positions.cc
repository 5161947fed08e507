#include <utility>

#include "dense_net/kernels.h"
#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

class SumPositionsOp : public Op {
 public:
  SumPositionsOp(std::string name, Value x, int positions)
      : Op(std::move(name), {x}, x.width / positions), positions_(positions) {}

  void Forward(const OpTile& tile) const override {
    const Real* x = tile.in[0];
    for (int i = 0; i < tile.rows; ++i) {
      Real* out = tile.out + int64_t{i} * width();
      for (int p = 0; p < positions_; ++p, x += width()) Kernel().copy(width(), x, out, p > 0);
    }
  }
  void Backward(const OpTile& tile) const override {
    Real* out = tile.in_grad[0];
    if (out == nullptr) return;
    for (int i = 0; i < tile.rows; ++i) {
      const Real* g = tile.out_grad + int64_t{i} * width();
      for (int p = 0; p < positions_; ++p, out += width()) {
        Kernel().copy(width(), g, out, tile.in_add[0]);
      }
    }
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    return onnx->Sum(onnx->Reshape(in[0], {-1, positions_, width()}), 1, false);
  }

 private:
  const int positions_;
};

}  // namespace

Value SumPositions(GraphBuilder* graph, std::string name, Value x, int positions) {
  return graph->Append(std::make_unique<SumPositionsOp>(std::move(name), x, positions));
}

}  // namespace starling
