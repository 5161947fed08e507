// a += mean(g^2), one a for the row; w -= lr * g / (sqrt(a) + eps). State: a (1).
#include "base/optimizers/rule.h"

namespace starling {
namespace {

struct RowwiseAdagrad {
  double lr;
  float eps;
  float initial_state;
  int StateSize(int) const { return 1; }

  [[gnu::always_inline]] void Step(const RowStep& row) const {
    const int n = row.n;
    const float scale = row.scale, l2 = row.l2;
    float* __restrict w = row.weights;
    const float* __restrict grad = row.grad;
    row.state[0] += static_cast<float>(SumSquares(n, grad, scale, w, l2) / n);
    const float rate = Rate(lr, row) / (std::sqrt(row.state[0]) + eps);
    for (int i = 0; i < n; ++i) w[i] -= rate * (grad[i] * scale + l2 * w[i]);
  }
};

}  // namespace

std::unique_ptr<Optimizer> MakeRowwiseAdagrad(const OptimizerOptions& options, OptionChecks* check,
                                              InstructionSet set) {
  const RowwiseAdagradOptions& o = options.rowwise_adagrad();
  RowwiseAdagrad rule;
  rule.lr = check->Above("lr", o.lr(), 0);
  rule.eps = check->Above("eps", o.eps(), 0);
  rule.initial_state = check->AtLeast("initial_accumulator", o.initial_accumulator(), 0);
  return Compile(rule, set);
}

}  // namespace starling
