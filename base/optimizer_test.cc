#include "base/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/random.h"

namespace starling {
namespace {

// A parameter with its optimiser.
struct Parameter {
  Parameter(const OptimizerOptions& options, std::vector<float> start)
      : optimizer(*Optimizer::Create(options)),
        w(std::move(start)),
        state(optimizer->StateSize(static_cast<int>(w.size()))) {
    optimizer->InitState(state);
  }
  void Step(const std::vector<float>& g, float lr_scale = 1) {
    optimizer->Step(lr_scale, w, state, g);
  }
  std::unique_ptr<const Optimizer> optimizer;
  std::vector<float> w, state;
};

std::vector<float> RandomFloats(int n, uint64_t seed) {
  std::vector<float> floats(n);
  for (int i = 0; i < n; ++i) floats[i] = static_cast<float>(RandomNormal(seed, i));
  return floats;
}

TEST(OptimizerTest, SgdByHand) {
  OptimizerOptions options;
  options.mutable_sgd()->set_lr(0.5);
  Parameter p(options, {1, -2});
  p.Step({2, 4});
  EXPECT_EQ(p.w, (std::vector<float>{0, -4}));
  p.Step({2, 4}, 0.5f);  // The scale halves the rate.
  EXPECT_EQ(p.w, (std::vector<float>{-0.5, -5}));
  EXPECT_TRUE(p.state.empty());
}

TEST(OptimizerTest, AdagradByHand) {
  OptimizerOptions options;
  options.mutable_adagrad()->set_lr(1);
  options.mutable_adagrad()->set_eps(1e-30);
  Parameter p(options, {0});
  p.Step({3});  // a = 9, w = -3/3
  EXPECT_EQ(p.w[0], -1);
  p.Step({4});  // a = 25, w = -1 - 4/5
  EXPECT_FLOAT_EQ(p.w[0], -1.8f);
  EXPECT_EQ(p.state, (std::vector<float>{25}));
}

TEST(OptimizerTest, AdamByHand) {
  OptimizerOptions options;
  options.mutable_adam()->set_lr(0.1);
  options.mutable_adam()->set_beta1(0.5);
  options.mutable_adam()->set_beta2(0.75);
  options.mutable_adam()->set_eps(1e-30);
  Parameter p(options, {1});
  p.Step({2});  // m = 1, v = 1; both corrections give 2 and 4, so the step is lr.
  EXPECT_FLOAT_EQ(p.w[0], 0.9f);
  EXPECT_EQ(p.state, (std::vector<float>{1, 1, 1}));
  p.Step({0});  // m = 0.5, v = 0.75; m^ = 0.5/0.75, v^ = 0.75/0.4375.
  EXPECT_FLOAT_EQ(p.w[0], 0.9f - 0.1f * (0.5f / 0.75f) / std::sqrt(0.75f / 0.4375f));
  EXPECT_EQ(p.state, (std::vector<float>{0.5, 0.75, 2}));
}

TEST(OptimizerTest, FtrlByHand) {
  OptimizerOptions options;
  options.mutable_ftrl()->set_lr(0.5);
  options.mutable_ftrl()->set_beta(1);
  options.mutable_ftrl()->set_l1(1);
  options.mutable_ftrl()->set_l2(2);
  Parameter p(options, {0, 0});
  p.Step({3, 0.5});  // z = 3 and 0.5; |0.5| <= l1, (1 - 3) / ((1 + 3) / 0.5 + 2) = -0.2.
  EXPECT_FLOAT_EQ(p.w[0], -0.2f);
  EXPECT_EQ(p.w[1], 0);
  EXPECT_EQ(p.state, (std::vector<float>{3, 0.5, 9, 0.25}));
  p.Step({-4, 0});  // sigma = (5 - 3) / 0.5 = 4; z = 3 - 4 + 4 * 0.2 = -0.2: within l1.
  EXPECT_EQ(p.w[0], 0);
  EXPECT_FLOAT_EQ(p.state[0], -0.2f);
}

TEST(OptimizerTest, ClipScalesTheGradientBeforeL2IsAdded) {
  OptimizerOptions options;
  options.mutable_sgd()->set_lr(1);
  options.set_clip(5);
  options.set_l2(0.5);
  Parameter p(options, {2, 0});
  const std::vector<float> g = {6, 8};  // Norm 10: halved.
  p.Step(g);
  EXPECT_FLOAT_EQ(p.w[0], 2 - (3 + 1));
  EXPECT_FLOAT_EQ(p.w[1], -4);
  EXPECT_EQ(g, (std::vector<float>{6, 8}));
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
      {"sgd", 0},   {"momentum", 8},  {"adagrad", 8},     {"rowwise_adagrad", 1},
      {"adam", 17}, {"adamw", 17},    {"rmsprop", 8},     {"group_adagrad", 1},
      {"ftrl", 16}, {"adadelta", 16}, {"group_ftrl", 16}, {"count", 0}};
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
      std::vector<float> w = RandomFloats(n, n), state(base->StateSize(n));
      base->InitState(state);
      std::vector<float> w2 = w, state2 = state;
      for (int t = 0; t < 20; ++t) {
        const std::vector<float> g = RandomFloats(n, 100 * n + t);
        base->Step(0.7f, w, state, g);
        avx2->Step(0.7f, w2, state2, g);
      }
      EXPECT_EQ(w, w2) << base->name() << " " << n;
      EXPECT_EQ(state, state2) << base->name() << " " << n;
    }
  }
}

// ---- Golden vectors of PyTorch and numpy: testdata/make_optimizer_golden.py ----

OptimizerOptions ParseOptions(const std::string& rule, std::map<std::string, double> v) {
  OptimizerOptions options;
  options.set_l2(v["l2"]);
  options.set_clip(v["clip"]);
  if (rule == "sgd") options.mutable_sgd()->set_lr(v["lr"]);
  if (rule == "adagrad") {
    options.mutable_adagrad()->set_lr(v["lr"]);
    options.mutable_adagrad()->set_eps(v["eps"]);
    options.mutable_adagrad()->set_initial_accumulator(v["initial_accumulator"]);
  }
  if (rule == "adam") {
    options.mutable_adam()->set_lr(v["lr"]);
    options.mutable_adam()->set_beta1(v["beta1"]);
    options.mutable_adam()->set_beta2(v["beta2"]);
    options.mutable_adam()->set_eps(v["eps"]);
  }
  if (rule == "ftrl") {
    options.mutable_ftrl()->set_lr(v["lr"]);
    options.mutable_ftrl()->set_beta(v["beta"]);
    options.mutable_ftrl()->set_l1(v["l1"]);
    options.mutable_ftrl()->set_l2(v["l2_ftrl"]);
  }
  return options;
}

TEST(OptimizerTest, EqualsPyTorchAndNumpy) {
  std::ifstream file(BASE_TESTDATA "/optimizer_golden.txt");
  ASSERT_TRUE(file);
  std::vector<Parameter> parameter;  // The case under way.
  std::string text, name;
  OptimizerOptions options;
  int compared = 0;
  while (std::getline(file, text)) {
    std::istringstream words(text);
    std::string tag, rule, word;
    words >> tag;
    if (tag == "case") {
      std::map<std::string, double> values;
      words >> name >> rule;
      while (words >> word)
        values[word.substr(0, word.find('='))] = std::stod(word.substr(word.find('=') + 1));
      options = ParseOptions(rule, values);
      parameter.clear();
      continue;
    }
    std::vector<float> floats;
    for (float f; words >> f;) floats.push_back(f);
    if (tag == "g") {
      parameter.at(0).Step(floats);
    } else if (parameter.empty()) {
      parameter.emplace_back(options, floats);
    } else {
      for (size_t i = 0; i < floats.size(); ++i, ++compared) {
        EXPECT_NEAR(parameter[0].w[i], floats[i], 2e-6 + 2e-6 * std::fabs(floats[i]))
            << name << " " << i;
      }
    }
  }
  EXPECT_EQ(compared, 8 * 8 * 5);  // Cases, steps, weights.
}

}  // namespace
}  // namespace starling
