// v = rho * v + (1 - rho) * g^2; w -= lr * g / (sqrt(v) + eps). State: v (n).
#include "base/optimizers/rule.h"

namespace starling {
namespace {

struct Rmsprop {
  double lr;
  float keep, take;  // rho and 1 less it.
  float eps;
  int StateSize(int n) const { return n; }

  [[gnu::always_inline]] void Step(const RowStep& row) const {
    const int n = row.n;
    const float rate = Rate(lr, row), scale = row.scale, l2 = row.l2;
    const float keep = this->keep, take = this->take, eps = this->eps;
    float* __restrict w = row.weights;
    float* __restrict squares = row.state;
    const float* __restrict grad = row.grad;
    for (int i = 0; i < n; ++i) {
      const float g = grad[i] * scale + l2 * w[i];
      const float v = keep * squares[i] + take * g * g;
      squares[i] = v;
      w[i] -= rate * g / (std::sqrt(v) + eps);
    }
  }
};

}  // namespace

std::unique_ptr<Optimizer> MakeRmsprop(const OptimizerOptions& options, OptionChecks* check,
                                       InstructionSet set) {
  const RmspropOptions& o = options.rmsprop();
  Rmsprop rule;
  rule.lr = check->Above("lr", o.lr(), 0);
  rule.keep = check->Fraction("rho", o.rho());
  rule.take = 1.0 - o.rho();
  rule.eps = check->Above("eps", o.eps(), 0);
  return Compile(rule, set);
}

}  // namespace starling
