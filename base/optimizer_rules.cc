#include "base/optimizer_rules.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace starling {
namespace {

// The gradient that a rule sees: g * scale + l2 * w.
struct Shaping {
  float scale;
  float l2;
};

Shaping ShapingOf(const OptimizerOptions& options, std::span<const float> grad) {
  Shaping shaping{1.0f, static_cast<float>(options.l2())};
  if (options.clip() > 0) {
    double squares = 0;
    for (float g : grad) squares += static_cast<double>(g) * g;
    double norm = std::sqrt(squares);
    if (norm > options.clip()) shaping.scale = static_cast<float>(options.clip() / norm);
  }
  return shaping;
}

void Sgd(float lr, Shaping s, size_t n, float* __restrict w, const float* __restrict grad) {
  for (size_t i = 0; i < n; ++i) w[i] -= lr * (grad[i] * s.scale + s.l2 * w[i]);
}

void Adagrad(float lr, float eps, Shaping s, size_t n, float* __restrict w,
             float* __restrict squares, const float* __restrict grad) {
  for (size_t i = 0; i < n; ++i) {
    float g = grad[i] * s.scale + s.l2 * w[i];
    squares[i] += g * g;
    w[i] -= lr * g / (std::sqrt(squares[i]) + eps);
  }
}

// `state` is m (n), v (n), steps.
void Adam(const AdamOptions& options, float lr, Shaping s, size_t n, float* __restrict w,
          float* __restrict state, const float* __restrict grad) {
  float* __restrict m = state;
  float* __restrict v = state + n;
  const float steps = state[2 * n] += 1.0f;
  const float b1 = options.beta1(), b2 = options.beta2(), eps = options.eps();
  const float c1 = 1.0 - options.beta1(), c2 = 1.0 - options.beta2();
  const float step = lr / (1.0 - std::pow(options.beta1(), static_cast<double>(steps)));
  const float root = 1.0 / std::sqrt(1.0 - std::pow(options.beta2(), static_cast<double>(steps)));
  for (size_t i = 0; i < n; ++i) {
    float g = grad[i] * s.scale + s.l2 * w[i];
    m[i] = b1 * m[i] + c1 * g;
    v[i] = b2 * v[i] + c2 * g * g;
    w[i] -= step * m[i] / (std::sqrt(v[i]) * root + eps);
  }
}

// `state` is z (n), n (n).
void Ftrl(const FtrlOptions& options, float alpha, Shaping s, size_t n, float* __restrict w,
          float* __restrict state, const float* __restrict grad) {
  float* __restrict z = state;
  float* __restrict squares = state + n;
  const float beta = options.beta(), l1 = options.l1(), l2 = options.l2();
  const float rate = 1.0f / alpha;
  for (size_t i = 0; i < n; ++i) {
    float g = grad[i] * s.scale + s.l2 * w[i];
    float sum = squares[i] + g * g;
    float root = std::sqrt(sum);
    z[i] += g - (root - std::sqrt(squares[i])) * rate * w[i];
    squares[i] = sum;
    float shrunk = std::copysign(l1, z[i]) - z[i];
    w[i] = std::fabs(z[i]) <= l1 ? 0.0f : shrunk / ((beta + root) * rate + l2);
  }
}

}  // namespace

int OptimizerStateSize(const OptimizerOptions& options, int n) {
  switch (options.rule_case()) {
    case OptimizerOptions::kAdagrad:
      return n;
    case OptimizerOptions::kAdam:
      return 2 * n + 1;
    case OptimizerOptions::kFtrl:
      return 2 * n;
    case OptimizerOptions::kSgd:
    case OptimizerOptions::RULE_NOT_SET:
      return 0;
  }
  return 0;
}

void InitOptimizerState(const OptimizerOptions& options, std::span<float> state) {
  float start = options.has_adagrad() ? options.adagrad().initial_accumulator() : 0.0;
  std::fill(state.begin(), state.end(), start);
}

void OptimizerStep(const OptimizerOptions& options, float lr_scale, std::span<float> weights,
                   std::span<float> state, std::span<const float> grad) {
  const size_t n = weights.size();
  const Shaping shaping = ShapingOf(options, grad);
  auto rate = [lr_scale](double lr) { return static_cast<float>(lr * lr_scale); };
  switch (options.rule_case()) {
    case OptimizerOptions::kSgd:
      return Sgd(rate(options.sgd().lr()), shaping, n, weights.data(), grad.data());
    case OptimizerOptions::kAdagrad:
      return Adagrad(rate(options.adagrad().lr()), options.adagrad().eps(), shaping, n,
                     weights.data(), state.data(), grad.data());
    case OptimizerOptions::kAdam:
      return Adam(options.adam(), rate(options.adam().lr()), shaping, n, weights.data(),
                  state.data(), grad.data());
    case OptimizerOptions::kFtrl:
      return Ftrl(options.ftrl(), rate(options.ftrl().lr()), shaping, n, weights.data(),
                  state.data(), grad.data());
    case OptimizerOptions::RULE_NOT_SET:
      std::abort();  // A layout without a rule is refused before any step.
  }
}

const char* OptimizerName(const OptimizerOptions& options) {
  switch (options.rule_case()) {
    case OptimizerOptions::kSgd:
      return "sgd";
    case OptimizerOptions::kAdagrad:
      return "adagrad";
    case OptimizerOptions::kAdam:
      return "adam";
    case OptimizerOptions::kFtrl:
      return "ftrl";
    case OptimizerOptions::RULE_NOT_SET:
      return "none";
  }
  return "none";
}

}  // namespace starling
