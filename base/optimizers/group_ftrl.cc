// As ftrl, but the whole row is zero while |z| < lambda * sqrt(n).
#include "base/optimizers/ftrl.h"

namespace starling {
namespace {

struct GroupFtrl {
  Ftrl ftrl;
  float lambda;
  int StateSize(int n) const { return ftrl.StateSize(n); }

  [[gnu::always_inline]] void Step(const RowStep& row) const {
    if (!ftrl.Step(row) || lambda == 0) return;
    const int n = row.n;
    if (Norm(n, row.state) < lambda * std::sqrt(static_cast<float>(n))) {
      std::fill_n(row.weights, n, 0.0f);
    }
  }
};

}  // namespace

std::unique_ptr<Optimizer> MakeGroupFtrl(const OptimizerOptions& options, OptionChecks* check,
                                         InstructionSet set) {
  const GroupFtrlOptions& o = options.group_ftrl();
  const auto lambda = static_cast<float>(check->AtLeast("lambda", o.lambda(), 0));
  return Compile(GroupFtrl{FtrlOf(o, check), lambda}, set);
}

}  // namespace starling
