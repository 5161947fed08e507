#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

class CrossOp : public Op {
 public:
  CrossOp(std::string name, Value x0, Value u, Value x)
      : Op(std::move(name), {x0, u, x}, x.width) {}
  std::string Key() const override { return "cross"; }
  Fusing fusing() const override { return Fusing::kCombine; }

  double ElementFlops() const override { return 2.0 * width(); }
  void Forward(const OpTile& tile) const override {
    tile.kernels().multiply_add(Floats(tile), tile.in[0], tile.in[1], tile.in[2], tile.out);
  }
  void Backward(const OpTile& tile) const override {
    const int64_t n = Floats(tile);
    if (tile.in_grad[0] != nullptr) {
      tile.kernels().multiply(n, tile.out_grad, tile.in[1], tile.in_grad[0], tile.in_add[0]);
    }
    tile.kernels().multiply(n, tile.out_grad, tile.in[0], tile.in_grad[1], tile.in_add[1]);
    if (tile.in_grad[2] != nullptr) {
      tile.kernels().copy(n, tile.out_grad, tile.in_grad[2], tile.in_add[2]);
    }
  }

 private:
  int64_t Floats(const OpTile& tile) const { return static_cast<int64_t>(tile.rows) * width(); }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    return onnx->Node("Add", {onnx->Node("Mul", {in[0], in[1]}), in[2]});
  }
};

}  // namespace

Value CrossCombine(GraphBuilder* graph, std::string name, Value x0, Value u, Value x) {
  return graph->Append(std::make_unique<CrossOp>(std::move(name), x0, u, x));
}

}  // namespace starling
