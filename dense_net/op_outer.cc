#include <algorithm>
#include <utility>

#include "dense_net/field_kernels.h"
#include "dense_net/kernels.h"
#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

class OuterOp : public Op {
 public:
  OuterOp(std::string name, Value a, Value b)
      : Op(std::move(name), {a, b}, a.width * b.width), na_(a.width), nb_(b.width) {}

  int64_t ScratchFloats(int) const override { return na_; }
  void Forward(const OpTile& tile) const override {
    FieldKernel().outer(tile.rows, na_, nb_, tile.in[0], tile.in[1], tile.out);
  }
  void Backward(const OpTile& tile) const override {
    for (int i = 0; i < tile.rows; ++i) {
      const Real* g = tile.out_grad + int64_t{i} * width();
      RowDots(na_, nb_, g, tile.in[1] + int64_t{i} * nb_, 0, tile.scratch);
      Kernel().copy(na_, tile.scratch, tile.in_grad[0] + int64_t{i} * na_, tile.in_add[0]);
      Real* db = tile.in_grad[1] + int64_t{i} * nb_;
      if (!tile.in_add[1]) std::fill_n(db, nb_, Real{0});
      Kernel().add_rows(na_, nb_, g, tile.in[0] + int64_t{i} * na_, db);
    }
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::string a = onnx->Reshape(in[0], {-1, na_, 1});
    const std::string b = onnx->Reshape(in[1], {-1, 1, nb_});
    return onnx->Reshape(onnx->Node("Mul", {a, b}), {-1, width()});
  }

 private:
  const int na_, nb_;
};

}  // namespace

Value Outer(GraphBuilder* graph, std::string name, Value a, Value b) {
  return graph->Append(std::make_unique<OuterOp>(std::move(name), a, b));
}

}  // namespace starling
