#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

class FmOp : public Op {
 public:
  FmOp(std::string name, Value x, int dim)
      : Op(std::move(name), {x}, 1), slots_(x.width / dim), dim_(dim) {}
  std::string Key() const override { return "fm " + std::to_string(dim_); }

  int64_t ScratchFloats(int tile) const override { return 2 * int64_t{tile} * dim_; }
  double ElementFlops() const override { return 3.0 * slots_ * dim_ + 3.0 * dim_ + 1; }
  void Forward(const OpTile& tile) const override {
    tile.kernels().fm(tile.rows, slots_, dim_, tile.in[0], tile.scratch, tile.out);
  }
  void Backward(const OpTile& tile) const override {
    tile.kernels().fm_backward(tile.rows, slots_, dim_, tile.in[0], tile.out_grad, tile.scratch,
                               tile.in_grad[0], tile.in_add[0]);
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::string x = onnx->Reshape(in[0], {-1, slots_, dim_});
    const std::string sum = onnx->Sum(x, 1, false);
    const std::string squares = onnx->Sum(onnx->Node("Mul", {x, x}), 1, false);
    const std::string twice = onnx->Node("Sub", {onnx->Node("Mul", {sum, sum}), squares});
    const std::string y = onnx->Sum(twice, 1, true);
    return onnx->Node("Mul", {y, onnx->Float(0.5f)});
  }

 private:
  const int slots_, dim_;
};

}  // namespace

Value FmSecondOrder(GraphBuilder* graph, Value x, int dim, std::string name) {
  return graph->Append(std::make_unique<FmOp>(std::move(name), x, dim));
}

}  // namespace starling
