#include <utility>

#include "dense_net/normalizing_op.h"
#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

constexpr double kEps = 1e-9;
constexpr double kMomentum = 0.01;

// y = x * (alpha + (1 - alpha) * p), p = sigmoid of x made normal by column.
class DiceOp : public NormalizingOp {
 public:
  enum { kMean, kInvStd, kMeanGrad, kMeanGradNormal, kVectors };
  enum { kSum, kSumNormal, kSumAlpha, kParts };

  DiceOp(std::string name, Value x, const Rule& rule, int64_t alpha)
      : NormalizingOp(std::move(name), x, rule), alpha_(alpha) {}

  double ElementFlops() const override { return 7.0 * width(); }
  void Forward(const OpTile& tile) const override {
    tile.kernels().dice(tile.rows, width(), tile.in[0], Vector(tile.state, kMean),
                        Vector(tile.state, kInvStd), tile.step->params + alpha_, tile.out);
  }

  void ReduceBackward(const OpTile& tile) const override {
    Real* part = PartOf(tile);
    tile.kernels().fill(int64_t{kParts} * width(), 0, part);
    tile.kernels().dice_sums(tile.rows, width(), tile.out_grad, tile.in[0],
                             Vector(tile.state, kMean), Vector(tile.state, kInvStd),
                             tile.step->params + alpha_, part);
  }

  void CombineBackward(const Step& step, Real* state, Real* param_grads) const override {
    const double rows = Rows(step);
    for (int j = 0; j < width(); ++j) {
      if (step.adds_joint()) {
        param_grads[alpha_ + j] += static_cast<Real>(SumParts(step, state, kSumAlpha, j));
      }
      Vector(state, kMeanGrad)[j] = static_cast<Real>(SumParts(step, state, kSum, j) / rows);
      Vector(state, kMeanGradNormal)[j] =
          static_cast<Real>(SumParts(step, state, kSumNormal, j) / rows);
    }
  }

  void Backward(const OpTile& tile) const override {
    if (tile.in_grad[0] == nullptr) return;
    tile.kernels().dice_backward(
        tile.rows, width(), tile.out_grad, tile.in[0], Vector(tile.state, kMean),
        Vector(tile.state, kInvStd), tile.step->params + alpha_, Vector(tile.state, kMeanGrad),
        Vector(tile.state, kMeanGradNormal), tile.in_grad[0], tile.in_add[0]);
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::string eps = onnx->Float(static_cast<float>(kEps));
    const std::string variance = onnx->Node("Add", {onnx->Param(rule().running_var), eps});
    const std::string centred = onnx->Node("Sub", {in[0], onnx->Param(rule().running_mean)});
    const std::string normal = onnx->Node("Div", {centred, onnx->Node("Sqrt", {variance})});
    const std::string p = onnx->Node("Sigmoid", {normal});
    const std::string alpha = onnx->Param(alpha_);
    const std::string rest = onnx->Node("Sub", {onnx->Float(1), alpha});
    const std::string share = onnx->Node("Add", {alpha, onnx->Node("Mul", {rest, p})});
    return onnx->Node("Mul", {in[0], share});
  }

 private:
  void SetColumn(const Step&, double mean, double inv_std, int j, Real* state) const override {
    Vector(state, kMean)[j] = static_cast<Real>(mean);
    Vector(state, kInvStd)[j] = static_cast<Real>(inv_std);
  }

  const int64_t alpha_;  // Offset.
};

}  // namespace

Value Dice(GraphBuilder* graph, std::string name, Value x) {
  const int64_t alpha = graph->AddParam(name + ".alpha", 1, x.width, Init::kZero, false);
  NormalizingOp::Rule rule{kEps, kMomentum, DiceOp::kVectors, DiceOp::kParts, 0, 0};
  rule.running_mean = graph->AddParam(name + ".running_mean", 1, x.width, Init::kZero, false, true);
  rule.running_var = graph->AddParam(name + ".running_var", 1, x.width, Init::kOne, false, true);
  return graph->Append(std::make_unique<DiceOp>(std::move(name), x, rule, alpha));
}

}  // namespace starling
