#include <algorithm>
#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

class BilinearOp : public Op {
 public:
  BilinearOp(std::string name, Value x, Value y, int heads, int64_t weight)
      : Op(std::move(name), {x, y}, 1),
        heads_(heads),
        nx_(x.width / heads),
        ny_(y.width / heads),
        weight_(weight) {}

  bool trainable() const override { return true; }
  double ForwardFlops() const override { return 2.0 * heads_ * nx_ * ny_; }
  double BackwardFlops(bool) const override { return 6.0 * heads_ * nx_ * ny_; }
  // Per head: the packed weights, and transposed for the backward pass.
  int64_t StateFloats(const Step& step) const override {
    return heads_ * (PackedGemmFloats(nx_, ny_) + (step.training ? PackedGemmFloats(ny_, nx_) : 0));
  }
  int64_t ScratchFloats(int tile) const override {
    return int64_t{tile} * std::max(nx_, ny_) + PackedGemmFloats(tile, ny_) + int64_t{tile} * ny_;
  }
  void Prepare(const Step& step, Real* state) const override {
    for (int h = 0; h < heads_; ++h) {
      const Real* w = step.params + weight_ + int64_t{h} * nx_ * ny_;
      step.device->PackGemmB(nx_, ny_, w, ny_, 1, state + h * PackedGemmFloats(nx_, ny_));
      if (step.training) step.device->PackGemmB(ny_, nx_, w, 1, ny_, Transposed(state, h));
    }
  }

  double ElementFlops() const override { return 2.0 * heads_ * ny_; }
  void Forward(const OpTile& tile) const override {
    Real* u = tile.scratch;
    for (int h = 0; h < heads_; ++h) {
      Left(tile, h, u);
      tile.fields().row_dots(tile.rows, ny_, 1, {u, ny_}, {Y(tile, h), int64_t{heads_} * ny_},
                             {tile.out, 1}, h > 0);
    }
  }

  void Backward(const OpTile& tile) const override {
    const int m = tile.rows;
    const int64_t x_stride = int64_t{heads_} * nx_, y_stride = int64_t{heads_} * ny_;
    Real* dense = tile.scratch;
    Real* scaled = tile.scratch + int64_t{m} * std::max(nx_, ny_);  // g * y of one head.
    Real* packed = scaled + int64_t{m} * ny_;
    for (int h = 0; h < heads_; ++h) {
      Left(tile, h, dense);
      tile.fields().scale_rows(m, ny_, 1, {dense, ny_}, {tile.out_grad, 1},
                               {tile.in_grad[1] + int64_t{h} * ny_, y_stride}, tile.in_add[1]);
      tile.fields().scale_rows(m, ny_, 1, {Y(tile, h), y_stride}, {tile.out_grad, 1}, {scaled, ny_},
                               false);
      tile.device().Gemm(nx_, ny_, m, {tile.in[0] + int64_t{h} * nx_, 1, x_stride},
                         tile.device().PackGemmB(m, ny_, scaled, ny_, 1, packed), GemmStart::kAdd,
                         nullptr, tile.param_grads + weight_ + int64_t{h} * nx_ * ny_);
      tile.device().Gemm(m, nx_, ny_, {scaled, ny_, 1},
                         PackedGemmB(ny_, nx_, Transposed(tile.state, h)), GemmStart::kZero,
                         nullptr, dense);
      tile.fields().copy_rows(m, nx_, {dense, nx_}, {tile.in_grad[0] + int64_t{h} * nx_, x_stride},
                              tile.in_add[0]);
    }
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    return onnx->Dot(onnx->GroupMatMul(in[0], weight_, {heads_, nx_, ny_}), in[1]);
  }

 private:
  Real* Transposed(Real* state, int h) const {
    return state + heads_ * PackedGemmFloats(nx_, ny_) + h * PackedGemmFloats(ny_, nx_);
  }
  // Head h of the first row of y.
  const Real* Y(const OpTile& tile, int h) const { return tile.in[1] + int64_t{h} * ny_; }
  // u (rows, ny) = head h of x times its weights.
  void Left(const OpTile& tile, int h, Real* u) const {
    tile.device().Gemm(tile.rows, ny_, nx_,
                       {tile.in[0] + int64_t{h} * nx_, int64_t{heads_} * nx_, 1},
                       PackedGemmB(nx_, ny_, tile.state + h * PackedGemmFloats(nx_, ny_)),
                       GemmStart::kZero, nullptr, u);
  }

  const int heads_, nx_, ny_;
  const int64_t weight_;
};

}  // namespace

Value Bilinear(GraphBuilder* graph, std::string name, Value x, Value y, int heads) {
  const int64_t weight =
      graph->AddParam(name + ".weight", x.width / heads * y.width, 1, Init::kXavierNormal, true);
  return graph->Append(std::make_unique<BilinearOp>(std::move(name), x, y, heads, weight));
}

}  // namespace starling
