// What the files of this folder share. A rule is a struct of floats with
//
//   float initial_state;                      // optional; 0 if there is none
//   int StateSize(int n) const;
//   void SetSteps(float* state, int n, float steps) const;   // optional
//   [[gnu::always_inline]] void Step(const RowStep& row) const;
//
// and a Make function that fills it from checked options. Compile turns a rule
// into an Optimizer: Step is inlined into a function for plain x86-64 and into
// one for AVX2. Both round alike, since AVX2 without FMA has no operation that
// rounds otherwise; sums over a row have an order of their own (SumSquares).
//
// Step copies what it needs into locals first: the compiler cannot know that
// weights do not overlap the rule, and would not vectorise the loop.
#pragma once

#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "base/optimizer.h"

namespace starling {

// Checks the options of one rule and remembers the first bad one. Every check
// returns the value, so that a rule is filled and checked by one expression.
class OptionChecks {
 public:
  explicit OptionChecks(std::string rule) : rule_(std::move(rule)) {}
  double Above(const char* key, double value, double bound);    // value > bound
  double AtLeast(const char* key, double value, double bound);  // value >= bound
  double Fraction(const char* key, double value);               // 0 <= value < 1
  double Finite(const char* key, double value);
  const std::optional<BadOption>& bad() const { return bad_; }

 private:
  double Check(bool ok, const char* key, double value, std::string message);

  const std::string rule_;
  std::optional<BadOption> bad_;
};

// One row's step as a rule sees it: the gradient is grad * scale + l2 * weights.
struct RowStep {
  int n;
  float lr_scale;
  float scale;
  float l2;
  float* weights;
  float* state;
  const float* grad;
};

// A Make function; `options` holds the rule's own message.
using MakeRule = std::unique_ptr<Optimizer>(const OptimizerOptions& options, OptionChecks* check,
                                            InstructionSet set);

template <typename Rule>
class RuleOptimizer : public Optimizer {
 public:
  explicit RuleOptimizer(Rule rule) : Optimizer(InitialState(rule)), rule_(std::move(rule)) {}
  int StateSize(int n) const final { return rule_.StateSize(n); }
  void SetSteps(std::span<float> state, int n, float steps) const final {
    if constexpr (requires { rule_.SetSteps(state.data(), n, steps); }) {
      rule_.SetSteps(state.data(), n, steps);
    }
  }

 protected:
  static float InitialState(const Rule& rule) {
    if constexpr (requires { rule.initial_state; }) return rule.initial_state;
    return 0;
  }
  [[gnu::always_inline]] inline void StepAll(int width, float lr_scale,
                                             std::span<const RowToStep> rows) const {
    const float l2 = this->l2();
    auto all = [&](auto n) __attribute__((always_inline)) {
      for (const RowToStep& row : rows) {
        const float scale = this->ScaleOf({row.grad, static_cast<size_t>(n)});
        rule_.Step({n, lr_scale, scale, l2, row.weights, row.state, row.grad});
      }
    };
    // A width that is known when this is compiled leaves no loop over a row.
    switch (width) {
      case 8:
        return all(std::integral_constant<int, 8>());
      case 16:
        return all(std::integral_constant<int, 16>());
      case 32:
        return all(std::integral_constant<int, 32>());
      default:
        return all(width);
    }
  }

 private:
  const Rule rule_;
};

template <typename Rule>
class BaseOptimizer final : public RuleOptimizer<Rule> {
 public:
  using RuleOptimizer<Rule>::RuleOptimizer;
  void Update(int n, float lr_scale, std::span<const RowToStep> rows) const final {
    this->StepAll(n, lr_scale, rows);
  }
};

template <typename Rule>
class Avx2Optimizer final : public RuleOptimizer<Rule> {
 public:
  using RuleOptimizer<Rule>::RuleOptimizer;
  [[gnu::target("avx2")]] void Update(int n, float lr_scale,
                                      std::span<const RowToStep> rows) const final {
    this->StepAll(n, lr_scale, rows);
  }
};

template <typename Rule>
std::unique_ptr<Optimizer> Compile(Rule rule, InstructionSet set) {
  if (set == InstructionSet::kAvx2) return std::make_unique<Avx2Optimizer<Rule>>(std::move(rule));
  return std::make_unique<BaseOptimizer<Rule>>(std::move(rule));
}

[[gnu::always_inline]] inline float Rate(double lr, const RowStep& row) {
  return static_cast<float>(lr * row.lr_scale);
}

// The sum of (x * scale + l2 * w)^2, that is, of squared gradients, in double.
// Eight partial sums in a fixed order: any vector width gives the same bits.
[[gnu::always_inline]] inline double SumSquares(int n, const float* x, float scale, const float* w,
                                                float l2) {
  constexpr int kLanes = 8;
  double lanes[kLanes] = {};
  const int whole = n / kLanes * kLanes;
  for (int i = 0; i < whole; i += kLanes) {
    for (int k = 0; k < kLanes; ++k) {
      const double g = x[i + k] * scale + l2 * w[i + k];
      lanes[k] += g * g;
    }
  }
  if (whole < n) {  // The rest, filled up with zeros.
    float rest[kLanes] = {};
    for (int i = whole; i < n; ++i) rest[i - whole] = x[i] * scale + l2 * w[i];
    for (int k = 0; k < kLanes; ++k) lanes[k] += static_cast<double>(rest[k]) * rest[k];
  }
  return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) +
         ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}

[[gnu::always_inline]] inline float Norm(int n, const float* x) {
  return static_cast<float>(std::sqrt(SumSquares(n, x, 1.0f, x, 0.0f)));
}

}  // namespace starling
