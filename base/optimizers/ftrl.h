// The part of a step that ftrl and group_ftrl share.
#pragma once

#include "base/optimizers/rule.h"

namespace starling {

// a' = a + g^2; sigma = (sqrt(a') - sqrt(a)) / lr; z += g - sigma * w; w = 0
// if |z| <= l1, else (sgn(z) * l1 - z) / ((beta + sqrt(a')) / lr + l2). A rate
// of 0 changes nothing, and Step is false. State: z (n), a (n).
struct Ftrl {
  double lr;
  float beta, l1, l2;

  int StateSize(int n) const { return 2 * n; }
  [[gnu::always_inline]] bool Step(const RowStep& row) const {
    const int n = row.n;
    const float rate = 1.0f / Rate(lr, row), scale = row.scale, shaping_l2 = row.l2;
    if (!std::isfinite(rate)) return false;
    const float beta = this->beta, l1 = this->l1, l2 = this->l2;
    float* __restrict w = row.weights;
    float* __restrict zs = row.state;
    float* __restrict squares = row.state + n;
    const float* __restrict grad = row.grad;
    for (int i = 0; i < n; ++i) {
      const float g = grad[i] * scale + shaping_l2 * w[i];
      const float before = std::sqrt(squares[i]);
      const float a = squares[i] + g * g;
      const float after = std::sqrt(a);
      const float z = zs[i] + (g - (after - before) * rate * w[i]);
      squares[i] = a;
      zs[i] = z;
      // Both arms are computed, so that the loop has no branch.
      const float shrunk = (std::copysign(l1, z) - z) / ((beta + after) * rate + l2);
      w[i] = std::fabs(z) <= l1 ? 0.0f : shrunk;
    }
    return true;
  }
};

// Of FtrlOptions or GroupFtrlOptions, whose common keys have the same names.
template <typename Options>
Ftrl FtrlOf(const Options& o, OptionChecks* check) {
  return {.lr = check->Above("lr", o.lr(), 0),
          .beta = static_cast<float>(check->AtLeast("beta", o.beta(), 0)),
          .l1 = static_cast<float>(check->AtLeast("l1", o.l1(), 0)),
          .l2 = static_cast<float>(check->AtLeast("l2", o.l2(), 0))};
}

}  // namespace starling
