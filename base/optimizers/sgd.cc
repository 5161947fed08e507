// w -= lr * g
#include "base/optimizers/rule.h"

namespace starling {
namespace {

struct Sgd {
  double lr;
  int StateSize(int) const { return 0; }

  [[gnu::always_inline]] void Step(const RowStep& row) const {
    const int n = row.n;
    const float rate = Rate(lr, row), scale = row.scale, l2 = row.l2;
    float* __restrict w = row.weights;
    const float* __restrict grad = row.grad;
    for (int i = 0; i < n; ++i) w[i] -= rate * (grad[i] * scale + l2 * w[i]);
  }
};

}  // namespace

std::unique_ptr<Optimizer> MakeSgd(const OptimizerOptions& options, OptionChecks* check,
                                   InstructionSet set) {
  return Compile(Sgd{.lr = check->Above("lr", options.sgd().lr(), 0)}, set);
}

}  // namespace starling
