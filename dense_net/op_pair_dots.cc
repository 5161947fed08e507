#include <algorithm>
#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

// A row is a small matrix X (slots, dim): forward is the upper triangle of
// X X', backward is G X with G the symmetric matrix of the pairs' gradients.
class PairDotsOp : public Op {
 public:
  PairDotsOp(std::string name, Value x, int dim)
      : Op(std::move(name), {x}, PairsOf(x.width / dim)), slots_(x.width / dim), dim_(dim) {}

  double ForwardFlops() const override { return 2.0 * slots_ * slots_ * dim_; }
  double BackwardFlops(bool) const override { return 2.0 * slots_ * slots_ * dim_; }
  int64_t ScratchFloats(int) const override {
    return Square() + std::max(PackedGemmFloats(dim_, slots_), int64_t{slots_} * kGemmPanel);
  }

  double ElementFlops() const override { return 0; }
  void Forward(const OpTile& tile) const override {
    Real* square = tile.scratch;
    Real* packed = tile.scratch + Square();
    const Real* x = tile.in[0];
    Real* out = tile.out;
    for (int i = 0; i < tile.rows; ++i, x += slots_ * dim_, out += width()) {
      const GemmB b = tile.device().PackGemmB(dim_, slots_, x, 1, dim_, packed);
      tile.device().Gemm(slots_, slots_, dim_, {x, dim_, 1}, b, GemmStart::kZero, nullptr, square);
      tile.fields().upper(slots_, square, out);
    }
  }

  void Backward(const OpTile& tile) const override {
    Real* square = tile.scratch;
    const Real* x = tile.in[0];
    const Real* g = tile.out_grad;
    Real* out = tile.in_grad[0];
    for (int i = 0; i < tile.rows; ++i, x += slots_ * dim_, out += slots_ * dim_, g += width()) {
      tile.fields().fill_symmetric(slots_, g, square);
      const GemmB b = tile.device().ViewGemmB(slots_, dim_, x, tile.scratch + Square());
      tile.device().Gemm(slots_, dim_, slots_, {square, slots_, 1}, b,
                         tile.in_add[0] ? GemmStart::kAdd : GemmStart::kZero, nullptr, out);
    }
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::string x = onnx->Reshape(in[0], {-1, slots_, dim_});
    const std::string square = onnx->Node("MatMul", {x, onnx->Transpose(x, {0, 2, 1})});
    std::vector<int64_t> upper;
    for (int i = 0; i < slots_; ++i) {
      for (int j = i + 1; j < slots_; ++j) upper.push_back(i * slots_ + j);
    }
    return onnx->Gather(onnx->Reshape(square, {-1, slots_ * slots_}), upper);
  }

 private:
  static int PairsOf(int slots) { return slots * (slots - 1) / 2; }
  int64_t Square() const { return (int64_t{slots_} * slots_ + 15) / 16 * 16; }

  const int slots_, dim_;
};

}  // namespace

Value PairDots(GraphBuilder* graph, std::string name, Value x, int dim) {
  return graph->Append(std::make_unique<PairDotsOp>(std::move(name), x, dim));
}

}  // namespace starling
