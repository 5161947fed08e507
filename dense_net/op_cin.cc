#include <algorithm>
#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

// Values stand as (dim, maps), so that the products of one coordinate are one
// row of a matrix Z (rows * dim, maps0 * maps), and a layer is Z W + b. Z is
// made for some rows at a time, and again in the backward pass.
class CinLayerOp : public Op {
 public:
  CinLayerOp(std::string name, Value x0, Value x, const CinLayerOptions& options, int64_t weight,
             int64_t bias)
      : Op(std::move(name), {x0, x}, options.dim * options.maps),
        dim_(options.dim),
        n_(options.maps),
        maps0_(x0.width / options.dim),
        maps_(x.width / options.dim),
        k_(maps0_ * maps_),
        chunk_(std::max<int>(1, kChunkFloats / (dim_ * k_))),
        weight_(weight),
        bias_(bias) {}

  bool trainable() const override { return true; }
  double ForwardFlops() const override { return 2.0 * dim_ * k_ * n_; }
  double BackwardFlops(bool) const override { return 4.0 * dim_ * k_ * n_; }
  int64_t StateFloats(const Step& step) const override {
    return PackedGemmFloats(k_, n_) + (step.training ? PackedGemmFloats(n_, k_) : 0);
  }
  int64_t ScratchFloats(int) const override {
    return 2 * ChunkFloats() + PackedGemmFloats(chunk_ * dim_, n_);
  }
  void Prepare(const Step& step, Real* state) const override {
    const Real* w = step.params + weight_;
    step.device->PackGemmB(k_, n_, w, n_, 1, state);
    if (step.training) step.device->PackGemmB(n_, k_, w, 1, n_, state + PackedGemmFloats(k_, n_));
  }

  double ElementFlops() const override { return 1.0 * dim_ * (k_ + n_); }  // Products and bias.
  void Forward(const OpTile& tile) const override {
    const Real* bias = tile.step->params + bias_;
    const GemmB w = PackedGemmB(k_, n_, tile.state);
    for (int first = 0; first < tile.rows; first += chunk_) {
      const int m = std::min(chunk_, tile.rows - first) * dim_;
      const Real* z = Products(tile, first, m);
      tile.device().Gemm(m, n_, k_, {z, k_, 1}, w, GemmStart::kBias, bias,
                         tile.out + At(first, n_));
    }
  }

  void Backward(const OpTile& tile) const override {
    const GemmB transposed = PackedGemmB(n_, k_, tile.state + PackedGemmFloats(k_, n_));
    Real* dz = tile.scratch + ChunkFloats();
    for (int first = 0; first < tile.rows; first += chunk_) {
      const int m = std::min(chunk_, tile.rows - first) * dim_;
      const Real* z = Products(tile, first, m);
      const Real* g = tile.out_grad + At(first, n_);
      tile.kernels().add_rows(m, n_, g, nullptr, tile.param_grads + bias_);
      const GemmB packed = tile.device().PackGemmB(m, n_, g, n_, 1, dz + ChunkFloats());
      tile.device().Gemm(k_, n_, m, {z, 1, k_}, packed, GemmStart::kAdd, nullptr,
                         tile.param_grads + weight_);
      tile.device().Gemm(m, k_, n_, {g, n_, 1}, transposed, GemmStart::kZero, nullptr, dz);
      const int64_t at0 = At(first, maps0_), at = At(first, maps_);
      tile.fields().outer_backward(m, maps0_, maps_, tile.in[0] + at0, tile.in[1] + at, dz,
                                   tile.in_grad[0] + at0, tile.in_add[0], tile.in_grad[1] + at,
                                   tile.in_add[1]);
    }
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::string x0 = onnx->Reshape(in[0], {-1, dim_, maps0_, 1});
    const std::string x = onnx->Reshape(in[1], {-1, dim_, 1, maps_});
    const std::string z = onnx->Reshape(onnx->Node("Mul", {x0, x}), {-1, dim_, k_});
    const std::string product = onnx->Node("MatMul", {z, onnx->Param(weight_)});
    return onnx->Reshape(onnx->Node("Add", {product, onnx->Param(bias_)}), {-1, width()});
  }

 private:
  static constexpr int kChunkFloats = 32768;  // 128 KiB of Z.

  int64_t ChunkFloats() const { return (int64_t{chunk_} * dim_ * k_ + 15) / 16 * 16; }
  int64_t At(int row, int width) const { return int64_t{row} * dim_ * width; }

  const Real* Products(const OpTile& tile, int first, int m) const {
    tile.fields().outer(m, maps0_, maps_, tile.in[0] + At(first, maps0_),
                        tile.in[1] + At(first, maps_), tile.scratch);
    return tile.scratch;
  }

  const int dim_, n_, maps0_, maps_, k_;
  const int chunk_;  // Rows of the tile at a time.
  const int64_t weight_, bias_;
};

}  // namespace

Value CinLayer(GraphBuilder* graph, std::string name, Value x0, Value x,
               const CinLayerOptions& options) {
  const int products = x0.width / options.dim * (x.width / options.dim);
  const int64_t weight =
      graph->AddParam(name + ".weight", products, options.maps, Init::kXavierNormal, true);
  const int64_t bias = graph->AddParam(name + ".bias", 1, options.maps, Init::kZero, false);
  return graph->Append(std::make_unique<CinLayerOp>(std::move(name), x0, x, options, weight, bias));
}

}  // namespace starling
