// a += max(g^2), one a for the row; rate = lr / (beta + sqrt(a)); u = w - rate * g;
// w = 0 if |u| <= rate * lambda, else (1 - rate * lambda / |u|) * u. State: a (1).
//
// This is the usual form, z = g - w / rate, times -rate: it has no division by
// a rate that a schedule may bring to 0.
#include "base/optimizers/rule.h"

namespace starling {
namespace {

struct GroupAdagrad {
  double lr;
  float beta;
  float lambda;
  float initial_state;
  int StateSize(int) const { return 1; }

  [[gnu::always_inline]] void Step(const RowStep& row) const {
    const int n = row.n;
    const float scale = row.scale, l2 = row.l2;
    float* __restrict w = row.weights;
    const float* __restrict grad = row.grad;
    float most = 0;
    for (int i = 0; i < n; ++i) {
      const float g = grad[i] * scale + l2 * w[i];
      most = g * g > most ? g * g : most;
    }
    row.state[0] += most;
    const float rate = Rate(lr, row) / (beta + std::sqrt(row.state[0]));
    for (int i = 0; i < n; ++i) w[i] -= rate * (grad[i] * scale + l2 * w[i]);
    const float threshold = rate * lambda;
    if (threshold == 0) return;
    const float norm = Norm(n, w);
    // A row with a NaN has no norm and must not become zero.
    const float shrink = norm <= threshold ? 0.0f : 1.0f - threshold / norm;
    for (int i = 0; i < n; ++i) w[i] *= shrink;
  }
};

}  // namespace

std::unique_ptr<Optimizer> MakeGroupAdagrad(const OptimizerOptions& options, OptionChecks* check,
                                            InstructionSet set) {
  const GroupAdagradOptions& o = options.group_adagrad();
  GroupAdagrad rule;
  rule.lr = check->Above("lr", o.lr(), 0);
  rule.beta = check->Above("beta", o.beta(), 0);
  rule.lambda = check->AtLeast("lambda", o.lambda(), 0);
  rule.initial_state = check->AtLeast("initial_accumulator", o.initial_accumulator(), 0);
  return Compile(rule, set);
}

}  // namespace starling
