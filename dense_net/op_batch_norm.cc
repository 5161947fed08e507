#include <utility>

#include "dense_net/normalizing_op.h"
#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

constexpr double kEps = 1e-5;
constexpr double kMomentum = 0.1;

class BatchNormOp : public NormalizingOp {
 public:
  // y = x * scale + shift; mean and inverse deviation serve the backward pass,
  // where shift is no longer needed and holds the mean of g.
  enum { kScale, kShift, kMean, kInvStd, kMeanGx, kVectors };
  enum { kSumG, kSumGx, kParts };

  BatchNormOp(std::string name, Value x, const Rule& rule, int64_t scale, int64_t shift)
      : NormalizingOp(std::move(name), x, rule), scale_(scale), shift_(shift) {}

  double ElementFlops() const override { return 2.0 * width(); }
  void Forward(const OpTile& tile) const override {
    tile.kernels().scale_shift(tile.rows, width(), tile.in[0], Vector(tile.state, kScale),
                               Vector(tile.state, kShift), tile.out);
  }

  void ReduceBackward(const OpTile& tile) const override {
    Real* part = PartOf(tile);
    tile.kernels().fill(int64_t{kParts} * width(), 0, part);
    tile.kernels().norm_sums(tile.rows, width(), tile.out_grad, tile.in[0],
                             Vector(tile.state, kMean), Vector(tile.state, kInvStd), part,
                             part + width());
  }

  // Leaves the means of g and g * x̂ in the place of shift and of a vector of its own.
  void CombineBackward(const Step& step, Real* state, Real* param_grads) const override {
    const double rows = Rows(step);
    for (int j = 0; j < width(); ++j) {
      const double sum_g = SumParts(step, state, kSumG, j);
      const double sum_gx = SumParts(step, state, kSumGx, j);
      if (step.adds_joint()) {
        param_grads[shift_ + j] += static_cast<Real>(sum_g);
        param_grads[scale_ + j] += static_cast<Real>(sum_gx);
      }
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
                      {in[0], onnx->Param(scale_, {n}), onnx->Param(shift_, {n}),
                       onnx->Param(rule().running_mean, {n}), onnx->Param(rule().running_var, {n})},
                      {{"epsilon", static_cast<float>(kEps)}});
  }

 private:
  void SetColumn(const Step& step, double mean, double inv_std, int j, Real* state) const override {
    const double scale = inv_std * step.params[scale_ + j];
    Vector(state, kScale)[j] = static_cast<Real>(scale);
    Vector(state, kShift)[j] = static_cast<Real>(step.params[shift_ + j] - mean * scale);
    Vector(state, kMean)[j] = static_cast<Real>(mean);
    Vector(state, kInvStd)[j] = static_cast<Real>(inv_std);
  }

  const int64_t scale_, shift_;  // Offsets.
};

}  // namespace

Value BatchNorm(GraphBuilder* graph, std::string name, Value x) {
  const int64_t scale = graph->AddParam(name + ".scale", 1, x.width, Init::kOne, false);
  const int64_t shift = graph->AddParam(name + ".shift", 1, x.width, Init::kZero, false);
  NormalizingOp::Rule rule{kEps, kMomentum, BatchNormOp::kVectors, BatchNormOp::kParts, 0, 0};
  rule.running_mean = graph->AddParam(name + ".running_mean", 1, x.width, Init::kZero, false, true);
  rule.running_var = graph->AddParam(name + ".running_var", 1, x.width, Init::kOne, false, true);
  return graph->Append(std::make_unique<BatchNormOp>(std::move(name), x, rule, scale, shift));
}

}  // namespace starling
