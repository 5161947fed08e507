#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

class ScaleRowsOp : public Op {
 public:
  ScaleRowsOp(std::string name, Value scale, Value x) : Op(std::move(name), {scale, x}, x.width) {}

  double ElementFlops() const override { return width(); }
  void Forward(const OpTile& tile) const override {
    const int n = Part();
    tile.fields().scale_rows(Parts(tile), n, 1, {tile.in[1], n}, {tile.in[0], 1}, {tile.out, n},
                             false);
  }
  void Backward(const OpTile& tile) const override {
    const int m = Parts(tile), n = Part();
    if (tile.in_grad[0] != nullptr) {
      tile.fields().row_dots(m, n, 1, {tile.out_grad, n}, {tile.in[1], n}, {tile.in_grad[0], 1},
                             tile.in_add[0]);
    }
    if (tile.in_grad[1] != nullptr) {
      tile.fields().scale_rows(m, n, 1, {tile.out_grad, n}, {tile.in[0], 1}, {tile.in_grad[1], n},
                               tile.in_add[1]);
    }
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const int64_t parts = inputs()[0].width;
    if (parts == 1) return onnx->Node("Mul", in);
    const std::string scale = onnx->Reshape(in[0], {-1, parts, 1});
    const std::string x = onnx->Reshape(in[1], {-1, parts, Part()});
    return onnx->Reshape(onnx->Node("Mul", {scale, x}), {-1, width()});
  }

 private:
  int Part() const { return width() / inputs()[0].width; }
  int Parts(const OpTile& tile) const { return tile.rows * inputs()[0].width; }
};

}  // namespace

Value ScaleRows(GraphBuilder* graph, std::string name, Value scale, Value x) {
  return graph->Append(std::make_unique<ScaleRowsOp>(std::move(name), scale, x));
}

}  // namespace starling
