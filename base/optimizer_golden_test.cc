// Every rule against vectors made elsewhere: PyTorch, or the published rule
// written out in Python. tests/golden/make_optimizer_vectors.py made them and
// says which is which.
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/optimizer.h"

namespace starling {
namespace {

using Json = nlohmann::json;
using Floats = std::vector<float>;

// The vectors are float64, ours float: 20 steps of some 5 roundings of at most
// 2^-24 each, which mostly cancel. Of a weight near 0 the terms count, which
// are near 1.
constexpr double kTolerance = 1e-6;

std::vector<std::string> Rules() {
  std::vector<std::string> names;
  const auto* oneof = OptimizerOptions::descriptor()->FindOneofByName("rule");
  for (int i = 0; i < oneof->field_count(); ++i) names.push_back(oneof->field(i)->name());
  return names;
}

// Replays one case; returns the number of weights compared.
int Replay(const Json& file, const Json& golden, InstructionSet set) {
  OptimizerOptions options;
  const std::string text = golden["options"];
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &options)) << text;
  auto optimizer = *Optimizer::Create(options, set);
  std::vector<Floats> rows = file["start"], states;
  for (const Floats& row : rows) {
    optimizer->InitState(states.emplace_back(optimizer->StateSize(static_cast<int>(row.size()))));
  }
  int compared = 0;
  size_t next = 0;  // In "after".
  for (size_t t = 0; t < file["grads"].size(); ++t) {
    for (size_t r = 0; r < rows.size(); ++r) {
      const Json& grad = file["grads"][t][r];
      if (grad.is_null()) continue;
      optimizer->Step(golden["scales"][t], rows[r], states[r], grad.get<Floats>());
    }
    if (next == file["after"].size() || file["after"][next] != t + 1) continue;
    for (size_t r = 0; r < rows.size(); ++r) {
      for (size_t i = 0; i < rows[r].size(); ++i, ++compared) {
        const double want = golden["weights"][next][r][i];
        EXPECT_NEAR(rows[r][i], want, kTolerance * std::max(1.0, std::fabs(want)))
            << text << ": step " << t + 1 << ", row " << r << ", weight " << i;
      }
    }
    ++next;
  }
  return compared;
}

class OptimizerGoldenTest : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Rules, OptimizerGoldenTest, testing::ValuesIn(Rules()),
                         [](const auto& info) { return info.param; });

// Rules() are the proto's: a new rule cannot come without vectors.
TEST_P(OptimizerGoldenTest, StepsEqualTheVectors) {
  std::ifstream in(absl::StrCat(BASE_TESTDATA "/optimizers/", GetParam(), ".json"));
  ASSERT_TRUE(in) << "no vectors: let tests/golden/make_optimizer_vectors.py write them";
  const Json file = Json::parse(in);
  ASSERT_GE(file["cases"].size(), 2u);
  for (const Json& golden : file["cases"]) {
    EXPECT_EQ(golden["options"].get<std::string>().rfind(GetParam() + " {", 0), 0u);
    for (InstructionSet set : {InstructionSet::kBase, BestInstructionSet()}) {
      EXPECT_EQ(Replay(file, golden, set), 5 * (1 + 3 + 11));  // Times, weights.
    }
  }
}

}  // namespace
}  // namespace starling
