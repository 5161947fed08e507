#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

class TransposeOp : public Op {
 public:
  TransposeOp(std::string name, Value x, int columns)
      : Op(std::move(name), {x}, x.width), rows_(x.width / columns), columns_(columns) {}

  double ElementFlops() const override { return 0; }
  void Forward(const OpTile& tile) const override {
    tile.fields().transpose(tile.rows, rows_, columns_, tile.in[0], tile.out, false);
  }
  void Backward(const OpTile& tile) const override {
    if (tile.in_grad[0] == nullptr) return;
    tile.fields().transpose(tile.rows, columns_, rows_, tile.out_grad, tile.in_grad[0],
                            tile.in_add[0]);
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::string x = onnx->Reshape(in[0], {-1, rows_, columns_});
    return onnx->Reshape(onnx->Transpose(x, {0, 2, 1}), {-1, width()});
  }

 private:
  const int rows_, columns_;  // Of a row, taken as a matrix.
};

}  // namespace

Value Transpose(GraphBuilder* graph, std::string name, Value x, int columns) {
  return graph->Append(std::make_unique<TransposeOp>(std::move(name), x, columns));
}

}  // namespace starling
