#include "base/optimizer.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"

namespace starling {
namespace {

using Floats = std::vector<float>;

OptimizerOptions OptionsOf(const std::string& text) {
  OptimizerOptions options;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &options)) << text;
  return options;
}

// A parameter with its optimiser.
struct Parameter {
  Parameter(const std::string& options, Floats start)
      : optimizer(*Optimizer::Create(OptionsOf(options))),
        w(std::move(start)),
        state(optimizer->StateSize(static_cast<int>(w.size()))) {
    optimizer->InitState(state);
  }
  void Step(const Floats& g, float lr_scale = 1) { optimizer->Step(lr_scale, w, state, g); }
  std::unique_ptr<const Optimizer> optimizer;
  Floats w, state;
};

Floats RandomFloats(int n, uint64_t seed) {
  Floats floats(n);
  for (int i = 0; i < n; ++i) floats[i] = static_cast<float>(RandomNormal(seed, i));
  return floats;
}

// ---- Each rule by hand ----

TEST(OptimizerTest, SgdByHand) {
  Parameter p("sgd { lr: 0.5 }", {1, -2});
  p.Step({2, 4});
  EXPECT_EQ(p.w, (Floats{0, -4}));
  p.Step({2, 4}, 0.5f);  // The scale halves the rate.
  EXPECT_EQ(p.w, (Floats{-0.5, -5}));
  EXPECT_TRUE(p.state.empty());
}

TEST(OptimizerTest, MomentumByHand) {
  Parameter p("momentum { lr: 0.5 momentum: 0.5 }", {1});
  p.Step({2});
  p.Step({2});  // m = 0.5 * 2 + 2
  EXPECT_EQ(p.w, (Floats{1 - 1 - 1.5}));
  EXPECT_EQ(p.state, (Floats{3}));
  Parameter nesterov("momentum { lr: 0.5 momentum: 0.5 nesterov: true }", {1});
  nesterov.Step({2});  // m = 2; the step is 2 + 0.5 * 2.
  EXPECT_EQ(nesterov.w, (Floats{1 - 1.5}));
  nesterov.Step({0});  // m = 1; the step is 0.5 * 1.
  EXPECT_EQ(nesterov.w, (Floats{-0.5 - 0.25}));
}

TEST(OptimizerTest, AdagradByHand) {
  Parameter p("adagrad { lr: 1 eps: 1e-30 }", {0});
  p.Step({3});  // a = 9, w = -3/3
  EXPECT_EQ(p.w[0], -1);
  p.Step({4});  // a = 25, w = -1 - 4/5
  EXPECT_FLOAT_EQ(p.w[0], -1.8f);
  EXPECT_EQ(p.state, (Floats{25}));
}

TEST(OptimizerTest, RowwiseAdagradByHand) {
  Parameter p("rowwise_adagrad { lr: 1 eps: 1e-30 }", {0, 0});
  p.Step({1, 7});  // a = (1 + 49) / 2
  EXPECT_FLOAT_EQ(p.w[0], -0.2f);
  EXPECT_FLOAT_EQ(p.w[1], -1.4f);
  p.Step({12, -12});  // a = 25 + 144
  EXPECT_FLOAT_EQ(p.w[0], -0.2f - 12.0f / 13.0f);
  EXPECT_EQ(p.state, (Floats{169}));
}

TEST(OptimizerTest, GroupAdagradByHand) {
  Parameter p("group_adagrad { lr: 1 beta: 1 lambda: 2.5 }", {0, 0});
  p.Step({3, 4});  // a = 16, rate = 1/5: w - rate * g has length 1 and loses 2.5 / 5.
  EXPECT_FLOAT_EQ(p.w[0], -0.3f);
  EXPECT_FLOAT_EQ(p.w[1], -0.4f);
  EXPECT_EQ(p.state, (Floats{16}));
  p.Step({-1.5, -1.5});  // a = 18.25: some 0.1 is left, less than 2.5 / 5.27.
  EXPECT_EQ(p.w, (Floats{0, 0}));
}

TEST(OptimizerTest, AdamByHand) {
  Parameter p("adam { lr: 0.1 beta1: 0.5 beta2: 0.75 eps: 1e-30 }", {1});
  p.Step({2});  // m = 1, v = 1; both corrections give 2 and 4, so the step is lr.
  EXPECT_FLOAT_EQ(p.w[0], 0.9f);
  EXPECT_EQ(p.state, (Floats{1, 1, 1}));
  p.Step({0});  // m = 0.5, v = 0.75; m^ = 0.5/0.75, v^ = 0.75/0.4375.
  EXPECT_FLOAT_EQ(p.w[0], 0.9f - 0.1f * (0.5f / 0.75f) / std::sqrt(0.75f / 0.4375f));
  EXPECT_EQ(p.state, (Floats{0.5, 0.75, 2}));
}

TEST(OptimizerTest, AdamEpsBeforeItsCorrectionByHand) {
  for (const bool uncorrected : {false, true}) {
    Parameter p(absl::StrCat("adam { lr: 0.1 beta1: 0.5 beta2: 0.75 eps: 3 eps_uncorrected: ",
                             uncorrected ? "true" : "false", " }"),
                {1});
    p.Step({2});  // m^ = 2; sqrt(v^) = 2, or sqrt(v) = 1, which with eps is corrected to twice it.
    EXPECT_FLOAT_EQ(p.w[0], 1 - 0.1f * 2 / (uncorrected ? 2.0f * (1 + 3) : 2.0f + 3))
        << uncorrected;
  }
}

TEST(OptimizerTest, AdamwByHand) {
  Parameter p("adamw { lr: 0.1 beta1: 0.5 beta2: 0.75 eps: 1e-30 weight_decay: 2 }", {1});
  p.Step({2});  // The weight keeps 1 - 0.1 * 2, and the step is lr.
  EXPECT_FLOAT_EQ(p.w[0], 0.8f - 0.1f);
  EXPECT_EQ(p.state, (Floats{1, 1, 1}));  // The decay is no part of the gradient.
}

TEST(OptimizerTest, RmspropByHand) {
  Parameter p("rmsprop { lr: 1 rho: 0.75 eps: 1e-30 }", {0});
  p.Step({4});  // v = 16 / 4
  p.Step({2});  // v = 3 + 1
  EXPECT_EQ(p.w, (Floats{-2 - 1}));
  EXPECT_EQ(p.state, (Floats{4}));
}

TEST(OptimizerTest, AdadeltaByHand) {
  Parameter p("adadelta { lr: 0.5 rho: 0.75 eps: 3 }", {0});
  p.Step({2});  // v = 1, d = 2 * sqrt(0 + 3) / sqrt(1 + 3), u = d^2 / 4
  EXPECT_FLOAT_EQ(p.w[0], -0.5f * std::sqrt(3.0f));
  EXPECT_FLOAT_EQ(p.state[0], 1);
  EXPECT_FLOAT_EQ(p.state[1], 0.75f);
}

TEST(OptimizerTest, FtrlByHand) {
  Parameter p("ftrl { lr: 0.5 beta: 1 l1: 1 l2: 2 }", {0, 0});
  p.Step({3, 0.5});  // z = 3 and 0.5; |0.5| <= l1, (1 - 3) / ((1 + 3) / 0.5 + 2) = -0.2.
  EXPECT_FLOAT_EQ(p.w[0], -0.2f);
  EXPECT_EQ(p.w[1], 0);
  EXPECT_EQ(p.state, (Floats{3, 0.5, 9, 0.25}));
  p.Step({-4, 0});  // sigma = (5 - 3) / 0.5 = 4; z = 3 - 4 + 4 * 0.2 = -0.2: within l1.
  EXPECT_EQ(p.w[0], 0);
  EXPECT_FLOAT_EQ(p.state[0], -0.2f);
}

TEST(OptimizerTest, GroupFtrlByHand) {
  Parameter kept("group_ftrl { lr: 0.5 beta: 1 lambda: 3.5 }", {0, 0});
  kept.Step({3, 4});  // |z| = 5, more than 3.5 * sqrt(2) = 4.95.
  EXPECT_FLOAT_EQ(kept.w[0], -3.0f / 8);
  EXPECT_FLOAT_EQ(kept.w[1], -4.0f / 10);
  Parameter zero("group_ftrl { lr: 0.5 beta: 1 lambda: 3.6 }", {0, 0});
  zero.Step({3, 4});
  EXPECT_EQ(zero.w, (Floats{0, 0}));
  EXPECT_EQ(zero.state, (Floats{3, 4, 9, 16}));
}

TEST(OptimizerTest, CountAddsItsAmountWhateverTheGradient) {
  Parameter p("count { } l2: 5 clip: 0.1", {1, -2});
  p.Step({NAN, 100});
  p.Step({0, 0}, 0);
  EXPECT_EQ(p.w, (Floats{3, 0}));
  EXPECT_EQ(p.state, (Floats{2}));
  Parameter half("count { amount: 0.5 }", {0});
  half.Step({7});
  EXPECT_EQ(half.w, (Floats{0.5}));
}

// ---- Promises of every rule ----

TEST(OptimizerTest, ClipScalesTheGradientBeforeL2IsAdded) {
  Parameter p("sgd { lr: 1 } clip: 5 l2: 0.5", {2, 0});
  const Floats g = {6, 8};  // Norm 10: halved.
  p.Step(g);
  EXPECT_FLOAT_EQ(p.w[0], 2 - (3 + 1));
  EXPECT_FLOAT_EQ(p.w[1], -4);
  EXPECT_EQ(g, (Floats{6, 8}));
}

// Every rule of the proto, with default options.
std::vector<OptimizerOptions> EveryRule() {
  std::vector<OptimizerOptions> rules;
  const auto* oneof = OptimizerOptions::descriptor()->FindOneofByName("rule");
  for (int i = 0; i < oneof->field_count(); ++i) {
    OptimizerOptions& options = rules.emplace_back();
    options.GetReflection()->MutableMessage(&options, oneof->field(i));
  }
  return rules;
}

TEST(OptimizerTest, EveryRuleHasItsNameAndTheStateThatTheFormatsPageLists) {
  const std::map<std::string, int> sizes = {
      {"sgd", 0},       {"momentum", 8},    {"adagrad", 8}, {"rowwise_adagrad", 1}, {"adam", 17},
      {"adamw", 17},    {"lamb", 17},       {"rmsprop", 8}, {"group_adagrad", 1},   {"ftrl", 16},
      {"adadelta", 16}, {"group_ftrl", 16}, {"count", 1}};
  std::map<std::string, int> found;
  for (const OptimizerOptions& options : EveryRule()) {
    auto optimizer = Optimizer::Create(options);
    ASSERT_TRUE(optimizer.ok()) << optimizer.status();
    EXPECT_EQ((*optimizer)->name(), OptimizerName(options));
    found[(*optimizer)->name()] = (*optimizer)->StateSize(8);
  }
  EXPECT_EQ(found, sizes);
}

// Rows must not change with the machine: base and AVX2 give the same bits, in
// whole vectors and in the remainders after them.
TEST(OptimizerTest, EveryInstructionSetGivesTheSameBits) {
  if (BestInstructionSet() == InstructionSet::kBase) GTEST_SKIP() << "no AVX2 here";
  for (OptimizerOptions options : EveryRule()) {
    options.set_l2(0.01);
    options.set_clip(3);
    auto base = *Optimizer::Create(options, InstructionSet::kBase);
    auto avx2 = *Optimizer::Create(options, InstructionSet::kAvx2);
    for (int n = 1; n <= 40; ++n) {
      Floats w = RandomFloats(n, n), state(base->StateSize(n));
      base->InitState(state);
      Floats w2 = w, state2 = state;
      for (int t = 0; t < 20; ++t) {
        const Floats g = RandomFloats(n, 100 * n + t);
        base->Step(0.7f, w, state, g);
        avx2->Step(0.7f, w2, state2, g);
      }
      EXPECT_EQ(w, w2) << base->name() << " " << n;
      EXPECT_EQ(state, state2) << base->name() << " " << n;
    }
  }
}

TEST(OptimizerTest, RowsThatStepTogetherTakeTheStepsOfEachAlone) {
  constexpr int kRows = 5;
  for (OptimizerOptions options : EveryRule()) {
    options.set_clip(3);
    auto optimizer = *Optimizer::Create(options);
    for (int n : {1, 8, 16, 17, 32}) {
      std::vector<Floats> w, state, grads;
      std::vector<RowToStep> rows;
      for (int r = 0; r < kRows; ++r) {
        w.push_back(RandomFloats(n, r));
        state.emplace_back(optimizer->StateSize(n));
        optimizer->InitState(state.back());
        grads.push_back(RandomFloats(n, 100 + r));
      }
      std::vector<Floats> w_alone = w, state_alone = state;
      for (int r = 0; r < kRows; ++r) {
        rows.push_back({w[r].data(), state[r].data(), grads[r].data()});
        optimizer->Step(0.7f, w_alone[r], state_alone[r], grads[r]);
      }
      optimizer->Update(n, 0.7f, rows);
      EXPECT_EQ(w, w_alone) << optimizer->name() << " " << n;
      EXPECT_EQ(state, state_alone) << optimizer->name() << " " << n;
    }
  }
}

// A schedule may end at 0.
TEST(OptimizerTest, ARateOfZeroChangesNoWeight) {
  for (OptimizerOptions options : EveryRule()) {
    if (options.has_count()) continue;
    if (options.has_group_adagrad()) options.mutable_group_adagrad()->set_lambda(1);
    if (options.has_group_ftrl()) options.mutable_group_ftrl()->set_lambda(1);
    auto optimizer = *Optimizer::Create(options);
    Floats w = RandomFloats(5, 1), state(optimizer->StateSize(5));
    optimizer->InitState(state);
    const Floats before = w;
    optimizer->Step(0, w, state, RandomFloats(5, 2));
    EXPECT_EQ(w, before) << optimizer->name();
  }
}

// It must reach the loss to be reported.
TEST(OptimizerTest, ANanInTheGradientReachesTheWeight) {
  for (OptimizerOptions options : EveryRule()) {
    if (options.has_count()) continue;
    if (options.has_group_adagrad()) options.mutable_group_adagrad()->set_lambda(1);
    if (options.has_group_ftrl()) options.mutable_group_ftrl()->set_lambda(1);
    for (InstructionSet set : {InstructionSet::kBase, BestInstructionSet()}) {
      auto optimizer = *Optimizer::Create(options, set);
      Floats w(11, 1), state(optimizer->StateSize(11)), g(11, 1);
      optimizer->InitState(state);
      g[3] = g[10] = NAN;  // In a vector and in the rest.
      optimizer->Step(1, w, state, g);
      EXPECT_TRUE(std::isnan(w[3]) && std::isnan(w[10])) << optimizer->name();
    }
  }
}

TEST(OptimizerTest, SetStepsEqualsStepsWithoutGradient) {
  int counters = 0;
  for (const OptimizerOptions& options : EveryRule()) {
    if (options.has_count()) continue;
    auto optimizer = *Optimizer::Create(WithoutDecay(options));
    Floats w = RandomFloats(3, 1), state(optimizer->StateSize(3)), g = RandomFloats(3, 2);
    optimizer->InitState(state);
    Floats told = w, told_state = state;
    optimizer->SetSteps(told_state, 3, 9);
    counters += told_state != state;
    if (told_state == state) continue;  // Nothing is counted.
    for (int t = 0; t < 9; ++t) optimizer->Step(1, w, state, Floats(3, 0));
    EXPECT_EQ(state, told_state) << optimizer->name();
    optimizer->Step(1, w, state, g);
    optimizer->Step(1, told, told_state, g);
    EXPECT_EQ(w, told) << optimizer->name();
  }
  EXPECT_EQ(counters, 3);  // adam, adamw and lamb.
}

// The corrections of early steps come from a table, later ones do not.
TEST(OptimizerTest, AdamIsUnbiasedAtAnyStep) {
  const double beta1 = 0.9, beta2 = 0.99999;
  for (float t : {1.f, 2.f, 10.f, 1000.f, 65535.f, 65536.f, 65537.f, 1e6f, 16777215.f}) {
    Parameter p("adam { lr: 1 beta1: 0.9 beta2: 0.99999 eps: 1e-30 }", {0});
    p.optimizer->SetSteps(p.state, 1, t - 1);
    p.Step({1});
    const double m = (1 - beta1) / (1 - std::pow(beta1, t));
    const double v = (1 - beta2) / (1 - std::pow(beta2, t));
    EXPECT_NEAR(p.w[0], -m / std::sqrt(v), 1e-6 * m / std::sqrt(v)) << t;
  }
}

TEST(OptimizerTest, StateStartsAtTheAccumulatorsOption) {
  for (const char* rule : {"adagrad", "rowwise_adagrad", "group_adagrad"}) {
    Parameter p(absl::StrCat(rule, " { initial_accumulator: 0.5 }"), {1, 2});
    EXPECT_EQ(p.state, Floats(p.state.size(), 0.5f)) << rule;
  }
}

TEST(OptimizerTest, ABadOptionIsRefusedByItsKey) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"sgd { lr: 0 }", "sgd.lr must be more than 0"},
      {"sgd { lr: nan }", "sgd.lr must be more than 0"},
      {"sgd { lr: inf }", "sgd.lr must be finite"},
      {"sgd { } l2: -1", "l2 must be at least 0"},
      {"sgd { } clip: -1", "clip must be at least 0"},
      {"momentum { momentum: 1 }", "momentum.momentum must be at least 0 and less than 1"},
      {"adagrad { eps: 0 }", "adagrad.eps must be more than 0"},
      {"adagrad { eps: 1e-60 }", "adagrad.eps must be more than 0"},  // 0 as a float.
      {"adagrad { initial_accumulator: -1 }", "adagrad.initial_accumulator must be at least 0"},
      {"rowwise_adagrad { lr: -1 }", "rowwise_adagrad.lr must be more than 0"},
      {"group_adagrad { beta: 0 }", "group_adagrad.beta must be more than 0"},
      {"group_adagrad { lambda: -1 }", "group_adagrad.lambda must be at least 0"},
      {"adam { beta1: -0.1 }", "adam.beta1 must be at least 0 and less than 1"},
      {"adam { beta2: 1 }", "adam.beta2 must be at least 0 and less than 1"},
      {"adamw { weight_decay: -1 }", "adamw.weight_decay must be at least 0"},
      {"lamb { weight_decay: -1 }", "lamb.weight_decay must be at least 0"},
      {"rmsprop { rho: 1.5 }", "rmsprop.rho must be at least 0 and less than 1"},
      {"adadelta { eps: -1 }", "adadelta.eps must be more than 0"},
      {"ftrl { l1: -1 }", "ftrl.l1 must be at least 0"},
      {"group_ftrl { lr: 0 }", "group_ftrl.lr must be more than 0"},
      {"count { amount: nan }", "count.amount must be a number"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_EQ(Optimizer::Create(OptionsOf(text)).status(), absl::InvalidArgumentError(message));
  }
  EXPECT_EQ(Optimizer::Create({}).status().message(),
            "no optimizer; name one of sgd, momentum, adagrad, rowwise_adagrad, group_adagrad, "
            "adam, adamw, lamb, rmsprop, adadelta, ftrl, group_ftrl, count");
}

TEST(OptimizerTest, WithoutDecayNothingShrinksByItself) {
  const Floats zero = {0};
  for (const char* rule :
       {"sgd { } l2: 1", "adamw { weight_decay: 1 } l2: 1", "lamb { weight_decay: 1 } l2: 1"}) {
    auto optimizer = *Optimizer::Create(WithoutDecay(OptionsOf(rule)));
    Floats w = {2}, state(optimizer->StateSize(1));
    optimizer->Step(1, w, state, zero);
    EXPECT_EQ(w, Floats{2}) << rule;
  }
}

}  // namespace
}  // namespace starling
