#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

class PairProductsOp : public Op {
 public:
  PairProductsOp(std::string name, Value a, Value b, int dim)
      : Op(std::move(name), {a, b}, WidthOf(a.width / dim, dim)),
        slots_(a.width / dim),
        dim_(dim) {}

  double ElementFlops() const override { return width(); }
  void Forward(const OpTile& tile) const override {
    tile.fields().pair_products(tile.rows, slots_, dim_, tile.in[0], tile.in[1], tile.out);
  }
  void Backward(const OpTile& tile) const override {
    tile.fields().pair_products_backward(tile.rows, slots_, dim_, tile.in[0], tile.in[1],
                                         tile.out_grad, tile.in_grad[0], tile.in_add[0],
                                         tile.in_grad[1], tile.in_add[1]);
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    std::vector<int64_t> left, right;
    for (int i = 0; i < slots_; ++i) {
      for (int j = i + 1; j < slots_; ++j) {
        left.push_back(i);
        right.push_back(j);
      }
    }
    const std::string a = onnx->Gather(onnx->Reshape(in[0], {-1, slots_, dim_}), left);
    const std::string b = onnx->Gather(onnx->Reshape(in[1], {-1, slots_, dim_}), right);
    return onnx->Reshape(onnx->Node("Mul", {a, b}), {-1, width()});
  }

 private:
  static int WidthOf(int slots, int dim) { return slots * (slots - 1) / 2 * dim; }

  const int slots_, dim_;
};

}  // namespace

Value PairProducts(GraphBuilder* graph, std::string name, Value a, Value b, int dim) {
  return graph->Append(std::make_unique<PairProductsOp>(std::move(name), a, b, dim));
}

}  // namespace starling
