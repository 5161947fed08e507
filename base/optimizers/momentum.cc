// m = momentum * m + g; w -= lr * m, or with nesterov lr * (g + momentum * m).
// State: m (n).
#include "base/optimizers/rule.h"

namespace starling {
namespace {

struct Momentum {
  double lr;
  float momentum;
  bool nesterov;
  int StateSize(int n) const { return n; }

  [[gnu::always_inline]] void Step(const RowStep& row) const {
    const int n = row.n;
    const float rate = Rate(lr, row), scale = row.scale, l2 = row.l2, momentum = this->momentum;
    // The step is own * g + carried * m.
    const float own = nesterov ? 1.0f : 0.0f, carried = nesterov ? momentum : 1.0f;
    float* __restrict w = row.weights;
    float* __restrict means = row.state;
    const float* __restrict grad = row.grad;
    for (int i = 0; i < n; ++i) {
      const float g = grad[i] * scale + l2 * w[i];
      const float m = momentum * means[i] + g;
      means[i] = m;
      w[i] -= rate * (own * g + carried * m);
    }
  }
};

}  // namespace

std::unique_ptr<Optimizer> MakeMomentum(const OptimizerOptions& options, OptionChecks* check,
                                        InstructionSet set) {
  const MomentumOptions& o = options.momentum();
  Momentum rule;
  rule.lr = check->Above("lr", o.lr(), 0);
  rule.momentum = check->Fraction("momentum", o.momentum());
  rule.nesterov = o.nesterov();
  return Compile(rule, set);
}

}  // namespace starling
