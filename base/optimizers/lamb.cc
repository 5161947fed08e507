// Adam's direction, d = m^ / (sqrt(v^) + eps) + weight_decay * w, taken as far
// as the row is long: w -= lr * (|w| / |d|) * d, where a norm of 0 makes the
// quotient 1. State: m (n), v (n), t, as adam's.
#include <algorithm>

#include "base/optimizers/adam.h"

namespace starling {
namespace {

struct Lamb {
  Adam adam;  // With its weight_decay.

  int StateSize(int n) const { return adam.StateSize(n); }
  void SetSteps(float* state, int n, float steps) const { adam.SetSteps(state, n, steps); }

  // The direction is needed twice, for its norm and for the step: it is made a
  // chunk at a time, so that a tensor of any size needs no memory of its own.
  static constexpr int kChunk = 256;

  [[gnu::always_inline]] void Step(const RowStep& row) const {
    const int n = row.n;
    const float steps = row.state[2 * n] += 1.0f;
    const float first = static_cast<float>(1 / adam.corrections.First(static_cast<size_t>(steps)));
    const float unbias = adam.corrections.Second(static_cast<size_t>(steps));
    float direction[kChunk];
    double squares = 0;
    for (int at = 0; at < n; at += kChunk) {
      const int m = std::min(kChunk, n - at);
      Moments(row, at, m);
      Direct(row, at, m, first, unbias, direction);
      squares += SumSquares(m, direction, 1.0f, direction, 0.0f);
    }
    const double length = SumSquares(n, row.weights, 1.0f, row.weights, 0.0f);
    const double trust = length > 0 && squares > 0 ? std::sqrt(length / squares) : 1.0;
    const float rate = static_cast<float>(adam.lr * row.lr_scale * trust);
    for (int at = 0; at < n; at += kChunk) {
      const int m = std::min(kChunk, n - at);
      Direct(row, at, m, first, unbias, direction);
      float* w = row.weights + at;
      for (int i = 0; i < m; ++i) w[i] -= rate * direction[i];
    }
  }

  [[gnu::always_inline]] void Moments(const RowStep& row, int at, int m) const {
    const float scale = row.scale, l2 = row.l2;
    const float b1 = adam.b1, b2 = adam.b2, c1 = adam.c1, c2 = adam.c2;
    const float* __restrict w = row.weights + at;
    float* __restrict mean = row.state + at;
    float* __restrict square = row.state + row.n + at;
    const float* __restrict grad = row.grad + at;
    for (int i = 0; i < m; ++i) {
      const float g = grad[i] * scale + l2 * w[i];
      mean[i] = b1 * mean[i] + c1 * g;
      square[i] = b2 * square[i] + c2 * g * g;
    }
  }

  [[gnu::always_inline]] void Direct(const RowStep& row, int at, int m, float first, float unbias,
                                     float* __restrict direction) const {
    const float eps = adam.eps, decay = static_cast<float>(adam.weight_decay);
    const float* __restrict w = row.weights + at;
    const float* __restrict mean = row.state + at;
    const float* __restrict square = row.state + row.n + at;
    for (int i = 0; i < m; ++i) {
      direction[i] = mean[i] * first / (std::sqrt(square[i]) * unbias + eps) + decay * w[i];
    }
  }
};

}  // namespace

std::unique_ptr<Optimizer> MakeLamb(const OptimizerOptions& options, OptionChecks* check,
                                    InstructionSet set) {
  const LambOptions& o = options.lamb();
  const double weight_decay = check->AtLeast("weight_decay", o.weight_decay(), 0);
  return Compile(Lamb{AdamOf(o, weight_decay, check)}, set);
}

}  // namespace starling
