#include "base/optimizer_rules.h"

#include <emmintrin.h>

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

// Square roots four at a time. std::sqrt may set errno, which keeps a loop
// around it from being vectorised; the values are the same. out may be x.
void Roots(size_t n, const float* x, float* out) {
  size_t i = 0;
  for (; i + 4 <= n; i += 4) _mm_storeu_ps(out + i, _mm_sqrt_ps(_mm_loadu_ps(x + i)));
  for (; i < n; ++i) out[i] = std::sqrt(x[i]);
}

// Rules that need roots go through a row in pieces of this many weights.
constexpr size_t kPiece = 64;

void Sgd(float lr, Shaping s, size_t n, float* __restrict w, const float* __restrict grad) {
  for (size_t i = 0; i < n; ++i) w[i] -= lr * (grad[i] * s.scale + s.l2 * w[i]);
}

void Adagrad(float lr, float eps, Shaping s, size_t n, float* __restrict w,
             float* __restrict squares, const float* __restrict grad) {
  float g[kPiece], root[kPiece];
  for (size_t begin = 0; begin < n; begin += kPiece) {
    const size_t m = std::min(kPiece, n - begin);
    float* __restrict wp = w + begin;
    float* __restrict sp = squares + begin;
    for (size_t i = 0; i < m; ++i) {
      g[i] = grad[begin + i] * s.scale + s.l2 * wp[i];
      sp[i] += g[i] * g[i];
    }
    Roots(m, sp, root);
    for (size_t i = 0; i < m; ++i) wp[i] -= lr * g[i] / (root[i] + eps);
  }
}

// `state` is m (n), v (n), steps.
void Adam(const AdamOptions& options, float lr, Shaping s, size_t n, float* __restrict w,
          float* __restrict state, const float* __restrict grad) {
  const float steps = state[2 * n] += 1.0f;
  const float b1 = options.beta1(), b2 = options.beta2(), eps = options.eps();
  const float c1 = 1.0 - options.beta1(), c2 = 1.0 - options.beta2();
  const float step = lr / (1.0 - std::pow(options.beta1(), static_cast<double>(steps)));
  const float unbias = 1.0 / std::sqrt(1.0 - std::pow(options.beta2(), static_cast<double>(steps)));
  float root[kPiece];
  for (size_t begin = 0; begin < n; begin += kPiece) {
    const size_t m = std::min(kPiece, n - begin);
    float* __restrict wp = w + begin;
    float* __restrict mp = state + begin;
    float* __restrict vp = state + n + begin;
    for (size_t i = 0; i < m; ++i) {
      float g = grad[begin + i] * s.scale + s.l2 * wp[i];
      mp[i] = b1 * mp[i] + c1 * g;
      vp[i] = b2 * vp[i] + c2 * g * g;
    }
    Roots(m, vp, root);
    for (size_t i = 0; i < m; ++i) wp[i] -= step * mp[i] / (root[i] * unbias + eps);
  }
}

// `state` is z (n), n (n).
void Ftrl(const FtrlOptions& options, float alpha, Shaping s, size_t n, float* __restrict w,
          float* __restrict state, const float* __restrict grad) {
  const float beta = options.beta(), l1 = options.l1(), l2 = options.l2();
  const float rate = 1.0f / alpha;
  float g[kPiece], before[kPiece], after[kPiece];
  for (size_t begin = 0; begin < n; begin += kPiece) {
    const size_t m = std::min(kPiece, n - begin);
    float* __restrict wp = w + begin;
    float* __restrict zp = state + begin;
    float* __restrict sp = state + n + begin;
    Roots(m, sp, before);
    for (size_t i = 0; i < m; ++i) {
      g[i] = grad[begin + i] * s.scale + s.l2 * wp[i];
      sp[i] += g[i] * g[i];
    }
    Roots(m, sp, after);
    for (size_t i = 0; i < m; ++i) {
      zp[i] += g[i] - (after[i] - before[i]) * rate * wp[i];
      float shrunk = std::copysign(l1, zp[i]) - zp[i];
      wp[i] = std::fabs(zp[i]) <= l1 ? 0.0f : shrunk / ((beta + after[i]) * rate + l2);
    }
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
