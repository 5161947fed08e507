#include <cmath>

#include "dense_net/row_loss.h"

namespace starling {
namespace {

struct LogRule {
  static constexpr char kOnnx[] = "Sigmoid";
  double extra;  // Of a positive's weight, beyond 1.

  static Real Score(Real z) { return static_cast<Real>(1.0 / (1.0 + std::exp(-double{z}))); }
  double Loss(double z, double y) const {
    const double tail = std::log1p(std::exp(-std::fabs(z)));
    // Not std::max: a NaN must stay one.
    const double plain = (z < 0 ? 0 : z) - z * y + tail;
    return extra == 0 ? plain : plain + extra * y * ((z < 0 ? -z : 0) + tail);
  }
  Real Slope(Real /*z*/, Real p, Real y) const {
    return p - y + static_cast<Real>(extra) * y * (p - 1);
  }
};

}  // namespace

void LogLoss(GraphBuilder* graph, const LossPlace& place, Value logit, double positive_weight) {
  AppendRowLoss(graph, place, logit, LogRule{positive_weight - 1});
}

}  // namespace starling
