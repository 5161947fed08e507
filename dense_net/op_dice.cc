#include <algorithm>
#include <cmath>
#include <utility>

#include "dense_net/kernels.h"
#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

constexpr double kEps = 1e-9;
constexpr double kMomentum = 0.01;

// y = x * (alpha + (1 - alpha) * p), p = sigmoid of x made normal by column.
class DiceOp : public CoupledOp {
 public:
  struct Offsets {
    int64_t alpha, mean, variance;
  };
  DiceOp(std::string name, Value x, Offsets params)
      : CoupledOp(std::move(name), {x}, x.width), params_(params) {}

  bool trainable() const override { return true; }

  // Four vectors of the step, then three a tile while training.
  int64_t StateFloats(const Step& step) const override {
    return (kVectors + (step.training ? kParts * step.tiles : 0)) * int64_t{width()};
  }

  void Prepare(const Step& step, Real* state) const override {
    if (step.training) return;
    for (int j = 0; j < width(); ++j) {
      SetNorm(step.params[params_.mean + j], step.params[params_.variance + j], j, state);
    }
  }

  void Forward(const OpTile& tile) const override {
    tile.kernels().dice(tile.rows, width(), tile.in[0], Vector(tile.state, kMean),
                        Vector(tile.state, kInvStd), tile.step->params + params_.alpha, tile.out);
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
      SetNorm(mean, count > 0 ? m2 / count : 1, j, state);
      param_grads[params_.mean + j] = param_grads[params_.variance + j] = 0;
      if (count == 0) continue;  // No row has an event.
      const double unbiased = m2 / std::max(count - 1, 1.0);
      param_grads[params_.mean + j] =
          static_cast<Real>(kMomentum * (mean - step.params[params_.mean + j]));
      param_grads[params_.variance + j] =
          static_cast<Real>(kMomentum * (unbiased - step.params[params_.variance + j]));
    }
  }

  void ReduceBackward(const OpTile& tile) const override {
    Real* part = Part(tile.state, tile.index);
    std::fill_n(part, kParts * width(), Real{0});
    tile.kernels().dice_sums(tile.rows, width(), tile.out_grad, tile.in[0],
                             Vector(tile.state, kMean), Vector(tile.state, kInvStd),
                             tile.step->params + params_.alpha, part);
  }

  void CombineBackward(const Step& step, Real* state, Real* param_grads) const override {
    const double rows = static_cast<double>(std::max<int64_t>(1, step.Rows(sequence())));
    for (int j = 0; j < width(); ++j) {
      double sum = 0, sum_normal = 0, alpha = 0;
      for (int t = 0; t < step.tiles; ++t) {
        const Real* part = Part(state, t);
        sum += part[j];
        sum_normal += part[width() + j];
        alpha += part[2 * width() + j];
      }
      param_grads[params_.alpha + j] += static_cast<Real>(alpha);
      Vector(state, kMeanGrad)[j] = static_cast<Real>(sum / rows);
      Vector(state, kMeanGradNormal)[j] = static_cast<Real>(sum_normal / rows);
    }
  }

  void Backward(const OpTile& tile) const override {
    if (tile.in_grad[0] == nullptr) return;
    tile.kernels().dice_backward(tile.rows, width(), tile.out_grad, tile.in[0],
                                 Vector(tile.state, kMean), Vector(tile.state, kInvStd),
                                 tile.step->params + params_.alpha, Vector(tile.state, kMeanGrad),
                                 Vector(tile.state, kMeanGradNormal), tile.in_grad[0],
                                 tile.in_add[0]);
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::string eps = onnx->Float(static_cast<float>(kEps));
    const std::string variance = onnx->Node("Add", {onnx->Param(params_.variance), eps});
    const std::string centred = onnx->Node("Sub", {in[0], onnx->Param(params_.mean)});
    const std::string normal = onnx->Node("Div", {centred, onnx->Node("Sqrt", {variance})});
    const std::string p = onnx->Node("Sigmoid", {normal});
    const std::string alpha = onnx->Param(params_.alpha);
    const std::string rest = onnx->Node("Sub", {onnx->Float(1), alpha});
    const std::string share = onnx->Node("Add", {alpha, onnx->Node("Mul", {rest, p})});
    return onnx->Node("Mul", {in[0], share});
  }

 private:
  enum { kMean, kInvStd, kMeanGrad, kMeanGradNormal, kVectors };
  static constexpr int kParts = 3;

  Real* Vector(Real* state, int which) const { return state + int64_t{which} * width(); }
  Real* Part(Real* state, int tile) const {
    return state + (kVectors + kParts * int64_t{tile}) * width();
  }
  void SetNorm(double mean, double variance, int j, Real* state) const {
    Vector(state, kMean)[j] = static_cast<Real>(mean);
    Vector(state, kInvStd)[j] = static_cast<Real>(1.0 / std::sqrt(variance + kEps));
  }

  const Offsets params_;
};

}  // namespace

Value Dice(GraphBuilder* graph, std::string name, Value x) {
  DiceOp::Offsets params;
  params.alpha = graph->AddParam(name + ".alpha", 1, x.width, Init::kZero, false);
  params.mean = graph->AddParam(name + ".running_mean", 1, x.width, Init::kZero, false, true);
  params.variance = graph->AddParam(name + ".running_var", 1, x.width, Init::kOne, false, true);
  return graph->Append(std::make_unique<DiceOp>(std::move(name), x, params));
}

}  // namespace starling
