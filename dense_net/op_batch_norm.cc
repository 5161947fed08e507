#include <algorithm>
#include <cmath>
#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

constexpr double kEps = 1e-5;
constexpr double kMomentum = 0.1;

class BatchNormOp : public CoupledOp {
 public:
  struct Offsets {
    int64_t scale, shift, mean, variance;
  };
  BatchNormOp(std::string name, Value x, Offsets params)
      : CoupledOp(std::move(name), {x}, x.width), params_(params) {}

  bool trainable() const override { return true; }

  // Five vectors of the step, then two a tile while training.
  int64_t StateFloats(const Step& step) const override {
    return (kVectors + (step.training ? 2 * step.tiles : 0)) * int64_t{width()};
  }

  void Prepare(const Step& step, Real* state) const override {
    if (step.training) return;
    for (int j = 0; j < width(); ++j) {
      SetScale(step, step.params[params_.mean + j], step.params[params_.variance + j], j, state);
    }
  }

  void Forward(const OpTile& tile) const override {
    tile.kernels().scale_shift(tile.rows, width(), tile.in[0], Vector(tile.state, kScale),
                               Vector(tile.state, kShift), tile.out);
  }

  void ReduceForward(const OpTile& tile) const override {
    Real* part = Part(tile.state, tile.index);
    if (tile.rows == 0) return;
    tile.kernels().column_moments(tile.rows, width(), tile.in[0], part, part + width());
  }

  // Joins the tiles' moments by Chan's rule, in double.
  void CombineForward(const Step& step, Real* state, Real* param_grads) const override {
    for (int j = 0; j < width(); ++j) {
      double mean = 0, m2 = 0, count = 0;
      for (int t = 0; t < step.tiles; ++t) {
        const double n = static_cast<double>(step.TileRows(sequence(), t));
        if (n == 0) continue;
        const Real* part = Part(state, t);
        const double delta = part[j] - mean;
        m2 += part[width() + j] + delta * delta * (count * n / (count + n));
        count += n;
        mean += delta * (n / count);
      }
      if (count == 0) {  // Positions, of which the batch has none.
        param_grads[params_.mean + j] = param_grads[params_.variance + j] = 0;
        continue;
      }
      SetScale(step, mean, m2 / count, j, state);
      const double unbiased = m2 / std::max(count - 1, 1.0);
      param_grads[params_.mean + j] =
          static_cast<Real>(kMomentum * (mean - step.params[params_.mean + j]));
      param_grads[params_.variance + j] =
          static_cast<Real>(kMomentum * (unbiased - step.params[params_.variance + j]));
    }
  }

  void ReduceBackward(const OpTile& tile) const override {
    Real* part = Part(tile.state, tile.index);
    std::fill_n(part, 2 * width(), Real{0});
    tile.kernels().norm_sums(tile.rows, width(), tile.out_grad, tile.in[0],
                             Vector(tile.state, kMean), Vector(tile.state, kInvStd), part,
                             part + width());
  }

  // Leaves the means of g and g * x̂ in the place of shift and of the first part.
  void CombineBackward(const Step& step, Real* state, Real* param_grads) const override {
    const double rows = static_cast<double>(std::max<int64_t>(1, step.Rows(sequence())));
    for (int j = 0; j < width(); ++j) {
      double sum_g = 0, sum_gx = 0;
      for (int t = 0; t < step.tiles; ++t) {
        sum_g += Part(state, t)[j];
        sum_gx += Part(state, t)[width() + j];
      }
      param_grads[params_.shift + j] += static_cast<Real>(sum_g);
      param_grads[params_.scale + j] += static_cast<Real>(sum_gx);
      Vector(state, kShift)[j] = static_cast<Real>(sum_g / rows);
      Vector(state, kMeanGx)[j] = static_cast<Real>(sum_gx / rows);
    }
  }

  void Backward(const OpTile& tile) const override {
    if (tile.in_grad[0] == nullptr) return;
    Real* state = tile.state;
    tile.kernels().norm_backward(tile.rows, width(), tile.out_grad, tile.in[0],
                                 Vector(state, kMean), Vector(state, kInvStd),
                                 Vector(state, kScale), Vector(state, kShift),
                                 Vector(state, kMeanGx), tile.in_grad[0], tile.in_add[0]);
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const int64_t n = width();
    return onnx->Node("BatchNormalization",
                      {in[0], onnx->Param(params_.scale, {n}), onnx->Param(params_.shift, {n}),
                       onnx->Param(params_.mean, {n}), onnx->Param(params_.variance, {n})},
                      {{"epsilon", static_cast<float>(kEps)}});
  }

 private:
  // y = x * scale + shift; mean and inverse deviation serve the backward pass,
  // where shift is no longer needed and holds the mean of g.
  enum { kScale, kShift, kMean, kInvStd, kMeanGx, kVectors };

  Real* Vector(Real* state, int which) const { return state + int64_t{which} * width(); }
  Real* Part(Real* state, int tile) const {
    return state + (kVectors + 2 * int64_t{tile}) * width();
  }
  void SetScale(const Step& step, double mean, double variance, int j, Real* state) const {
    const double inv_std = 1.0 / std::sqrt(variance + kEps);
    const double scale = inv_std * step.params[params_.scale + j];
    Vector(state, kScale)[j] = static_cast<Real>(scale);
    Vector(state, kShift)[j] = static_cast<Real>(step.params[params_.shift + j] - mean * scale);
    Vector(state, kMean)[j] = static_cast<Real>(mean);
    Vector(state, kInvStd)[j] = static_cast<Real>(inv_std);
  }

  const Offsets params_;
};

}  // namespace

Value BatchNorm(GraphBuilder* graph, std::string name, Value x) {
  BatchNormOp::Offsets params;
  params.scale = graph->AddParam(name + ".scale", 1, x.width, Init::kOne, false);
  params.shift = graph->AddParam(name + ".shift", 1, x.width, Init::kZero, false);
  params.mean = graph->AddParam(name + ".running_mean", 1, x.width, Init::kZero, false, true);
  params.variance = graph->AddParam(name + ".running_var", 1, x.width, Init::kOne, false, true);
  return graph->Append(std::make_unique<BatchNormOp>(std::move(name), x, params));
}

}  // namespace starling
