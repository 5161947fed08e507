// The part of a step that adam and adamw share.
#pragma once

#include <vector>

#include "base/optimizers/rule.h"

namespace starling {

// Bias corrections by step count t, from tables: a power a row would cost more
// than the row. The powers are products, not std::pow, whose last bit depends
// on the machine.
class BiasCorrections {
 public:
  BiasCorrections(double beta1, double beta2);
  // 1 - beta1^t and 1 / sqrt(1 - beta2^t), for t >= 1.
  double First(size_t t) const { return t < first_.size() ? first_[t] : FirstBeyond(t); }
  float Second(size_t t) const { return t < second_.size() ? second_[t] : SecondBeyond(t); }

 private:
  double FirstBeyond(size_t t) const;
  float SecondBeyond(size_t t) const;

  double beta1_, beta2_;
  std::vector<double> first_;  // By t; ends where the value stays 1, or at a bound.
  std::vector<float> second_;
};

// m = beta1 * m + (1 - beta1) * g; v = beta2 * v + (1 - beta2) * g^2;
// w -= lr * (weight_decay * w + m^ / (sqrt(v^) + eps)), where m^ = m / (1 - beta1^t),
// v^ = v / (1 - beta2^t) and t counts the steps of this row: a row that is
// not stepped does not decay. With eps_uncorrected, eps / sqrt(1 - beta2^t) takes
// the place of eps. State: m (n), v (n), t.
struct Adam {
  double lr;
  float eps;
  float b1, b2, c1, c2;  // beta1, beta2 and 1 less each.
  double weight_decay;
  BiasCorrections corrections;
  bool eps_uncorrected = false;

  int StateSize(int n) const { return 2 * n + 1; }
  void SetSteps(float* state, int n, float steps) const { state[2 * n] = steps; }
  [[gnu::always_inline]] void Step(const RowStep& row) const {
    const int n = row.n;
    const float rate = Rate(lr, row), scale = row.scale, l2 = row.l2;
    const float b1 = this->b1, b2 = this->b2, c1 = this->c1, c2 = this->c2;
    const float decay = Rate(lr * weight_decay, row);
    float* __restrict w = row.weights;
    float* __restrict mean = row.state;
    float* __restrict square = row.state + n;
    const float* __restrict grad = row.grad;
    const float steps = row.state[2 * n] += 1.0f;
    const float step = static_cast<float>(rate / corrections.First(static_cast<size_t>(steps)));
    const float unbias = corrections.Second(static_cast<size_t>(steps));
    const float eps = eps_uncorrected ? this->eps * unbias : this->eps;
    for (int i = 0; i < n; ++i) {
      const float g = grad[i] * scale + l2 * w[i];
      const float m = b1 * mean[i] + c1 * g;
      const float v = b2 * square[i] + c2 * g * g;
      mean[i] = m;
      square[i] = v;
      w[i] -= decay * w[i] + step * m / (std::sqrt(v) * unbias + eps);
    }
  }
};

// Of AdamOptions or AdamwOptions, whose common keys have the same names.
template <typename Options>
Adam AdamOf(const Options& o, double weight_decay, OptionChecks* check) {
  const double beta1 = check->Fraction("beta1", o.beta1());
  const double beta2 = check->Fraction("beta2", o.beta2());
  return {.lr = check->Above("lr", o.lr(), 0),
          .eps = static_cast<float>(check->Above("eps", o.eps(), 0)),
          .b1 = static_cast<float>(beta1),
          .b2 = static_cast<float>(beta2),
          .c1 = static_cast<float>(1.0 - beta1),
          .c2 = static_cast<float>(1.0 - beta2),
          .weight_decay = weight_decay,
          .corrections = BiasCorrections(beta1, beta2)};
}

}  // namespace starling
