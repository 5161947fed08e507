#include <cmath>

#include "dense_net/row_loss.h"

namespace starling {
namespace {

struct FocalRule {
  static constexpr char kOnnx[] = "Sigmoid";
  double gamma, alpha;

  static Real Score(Real z) { return static_cast<Real>(Sigmoid(z)); }
  double Loss(double z, double y) const {
    return alpha * y * LossOfPositive(z) + (1 - alpha) * (1 - y) * LossOfPositive(-z);
  }
  Real Slope(Real z, Real /*p*/, Real y) const {
    return static_cast<Real>(alpha * y * SlopeOfPositive(z) -
                             (1 - alpha) * (1 - y) * SlopeOfPositive(-double{z}));
  }

 private:
  static double Sigmoid(double z) { return 1.0 / (1.0 + std::exp(-z)); }
  static double LogSigmoid(double z) {
    return (z < 0 ? z : 0) - std::log1p(std::exp(-std::fabs(z)));
  }
  // -(1 - p)^gamma log p, and its slope; a negative is a positive of -z.
  double LossOfPositive(double z) const { return -std::pow(Sigmoid(-z), gamma) * LogSigmoid(z); }
  double SlopeOfPositive(double z) const {
    const double p = Sigmoid(z);
    return std::pow(Sigmoid(-z), gamma) * (gamma * p * LogSigmoid(z) - Sigmoid(-z));
  }
};

}  // namespace

void FocalLoss(GraphBuilder* graph, const LossPlace& place, Value logit, double gamma,
               double alpha) {
  AppendRowLoss(graph, place, logit, FocalRule{gamma, alpha});
}

}  // namespace starling
