// v = rho * v + (1 - rho) * g^2; d = g * sqrt(u + eps) / sqrt(v + eps);
// u = rho * u + (1 - rho) * d^2; w -= lr * d. State: v (n), u (n).
#include "base/optimizers/rule.h"

namespace starling {
namespace {

struct Adadelta {
  double lr;
  float keep, take;  // rho and 1 less it.
  float eps;
  int StateSize(int n) const { return 2 * n; }

  [[gnu::always_inline]] void Step(const RowStep& row) const {
    const int n = row.n;
    const float rate = Rate(lr, row), scale = row.scale, l2 = row.l2;
    const float keep = this->keep, take = this->take, eps = this->eps;
    float* __restrict w = row.weights;
    float* __restrict squares = row.state;
    float* __restrict deltas = row.state + n;
    const float* __restrict grad = row.grad;
    for (int i = 0; i < n; ++i) {
      const float g = grad[i] * scale + l2 * w[i];
      const float v = keep * squares[i] + take * g * g;
      const float d = g * std::sqrt(deltas[i] + eps) / std::sqrt(v + eps);
      squares[i] = v;
      deltas[i] = keep * deltas[i] + take * d * d;
      w[i] -= rate * d;
    }
  }
};

}  // namespace

std::unique_ptr<Optimizer> MakeAdadelta(const OptimizerOptions& options, OptionChecks* check,
                                        InstructionSet set) {
  const AdadeltaOptions& o = options.adadelta();
  Adadelta rule;
  rule.lr = check->Above("lr", o.lr(), 0);
  rule.keep = check->Fraction("rho", o.rho());
  rule.take = 1.0 - o.rho();
  rule.eps = check->Above("eps", o.eps(), 0);
  return Compile(rule, set);
}

}  // namespace starling
