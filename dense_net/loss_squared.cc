#include "dense_net/row_loss.h"

namespace starling {
namespace {

struct SquaredRule {
  static constexpr char kOnnx[] = "Identity";
  static Real Score(Real x) { return x; }
  static double Loss(double x, double y) { return (x - y) * (x - y); }
  static Real Slope(Real x, Real /*score*/, Real y) { return 2 * (x - y); }
};

}  // namespace

void SquaredLoss(GraphBuilder* graph, const LossPlace& place, Value x) {
  AppendRowLoss(graph, place, x, SquaredRule{});
}

}  // namespace starling
