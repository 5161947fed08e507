// w += amount, whatever the gradient, the rate and the common options: a row's
// true value is the number of its steps, which tests can count in the data. Its
// state holds that number as well, so that weights and state can be told apart.
#include "base/optimizers/rule.h"

namespace starling {
namespace {

struct Count {
  float amount;
  int StateSize(int) const { return 1; }

  [[gnu::always_inline]] void Step(const RowStep& row) const {
    const float amount = this->amount;
    for (int i = 0; i < row.n; ++i) row.weights[i] += amount;
    row.state[0] += 1;
  }
};

}  // namespace

std::unique_ptr<Optimizer> MakeCount(const OptimizerOptions& options, OptionChecks* check,
                                     InstructionSet set) {
  return Compile(Count{static_cast<float>(check->Finite("amount", options.count().amount()))}, set);
}

}  // namespace starling
