// a += g^2; w -= lr * g / (sqrt(a) + eps). State: a (n).
#include "base/optimizers/rule.h"

namespace starling {
namespace {

struct Adagrad {
  double lr;
  float eps;
  float initial_state;
  int StateSize(int n) const { return n; }

  [[gnu::always_inline]] void Step(const RowStep& row) const {
    const int n = row.n;
    const float rate = Rate(lr, row), scale = row.scale, l2 = row.l2, eps = this->eps;
    float* __restrict w = row.weights;
    float* __restrict squares = row.state;
    const float* __restrict grad = row.grad;
    for (int i = 0; i < n; ++i) {
      const float g = grad[i] * scale + l2 * w[i];
      const float a = squares[i] + g * g;
      squares[i] = a;
      w[i] -= rate * g / (std::sqrt(a) + eps);
    }
  }
};

}  // namespace

std::unique_ptr<Optimizer> MakeAdagrad(const OptimizerOptions& options, OptionChecks* check,
                                       InstructionSet set) {
  const AdagradOptions& o = options.adagrad();
  Adagrad rule;
  rule.lr = check->Above("lr", o.lr(), 0);
  rule.eps = check->Above("eps", o.eps(), 0);
  rule.initial_state = check->AtLeast("initial_accumulator", o.initial_accumulator(), 0);
  return Compile(rule, set);
}

}  // namespace starling
