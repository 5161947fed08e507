#include "scheduler/evaluation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"

namespace starling {
namespace {

// The definition: the share of (positive, negative) pairs in the right order.
double PairwiseAuc(const std::vector<float>& s, const std::vector<float>& y) {
  double right = 0, pairs = 0;
  for (size_t i = 0; i < s.size(); ++i) {
    for (size_t j = 0; j < s.size(); ++j) {
      if (y[i] <= 0.5f || y[j] > 0.5f) continue;
      right += s[i] > s[j] ? 1 : s[i] == s[j] ? 0.5 : 0;
      pairs += 1;
    }
  }
  return right / pairs;
}

TEST(EvaluationTest, AucIsTheShareOfOrderedPairsWithTiesHalf) {
  std::vector<float> s, y;
  for (int i = 0; i < 300; ++i) {
    s.push_back(static_cast<float>(RandomBelow(1, i, 20)) / 20);
    y.push_back(RandomUniform(2, i) < s.back() ? 1 : 0);
  }
  Evaluation e;
  e.Add(std::span(s).first(100), std::span(y).first(100), {});
  e.Add(std::span(s).subspan(100), std::span(y).subspan(100), {});
  EXPECT_NEAR(e.Compute().auc, PairwiseAuc(s, y), 1e-12);
  EXPECT_EQ(e.Compute().gauc, e.Compute().auc);
}

TEST(EvaluationTest, HandComputedLossEntropyAndCalibration) {
  std::vector<float> s = {0.5, 0.25, 0.75, 0.5}, y = {1, 0, 1, 0};
  Evaluation e;
  e.Add(s, y, {});
  EvalMetrics m = e.Compute();
  double loss = -(std::log(0.5) + std::log(0.75) + std::log(0.75) + std::log(0.5)) / 4;
  EXPECT_NEAR(m.logloss, loss, 1e-12);
  EXPECT_NEAR(m.ne, loss / std::log(2.0), 1e-12);
  EXPECT_NEAR(m.calibration, 1.0, 1e-12);
}

TEST(EvaluationTest, GaucWeighsGroupsByRowsAndLeavesOutOneClassGroups) {
  // Group 1 is ordered rightly, group 2 wrongly, group 3 has no negative.
  std::vector<float> s = {0.9, 0.1, 0.2, 0.8, 0.7, 0.3}, y = {1, 0, 1, 0, 0, 1};
  std::vector<uint64_t> g = {1, 1, 2, 2, 2, 3};
  Evaluation e;
  e.Add(s, y, g);
  EvalMetrics m = e.Compute();
  EXPECT_NEAR(m.gauc, (2 * 1.0 + 3 * 0.0) / 5, 1e-12);
  EXPECT_EQ(m.gauc_groups, 2);
}

TEST(EvaluationTest, OneClassOrNoRowsIsNoAccident) {
  Evaluation e;
  EXPECT_EQ(e.Compute().samples, 0);
  std::vector<float> s = {0.2, 0.4}, y = {0, 0};
  e.Add(s, y, {});
  EXPECT_EQ(e.Compute().auc, 0.5);
  EXPECT_TRUE(std::isfinite(e.Compute().logloss));
  EXPECT_TRUE(std::isfinite(e.Compute().ne));
}

TEST(RunningAucTest, AgreesWithTheExactOne) {
  std::vector<float> s, y;
  for (int i = 0; i < 5000; ++i) {
    s.push_back(static_cast<float>(RandomUniform(3, i)));
    y.push_back(RandomUniform(4, i) < s.back() ? 1 : 0);
  }
  RunningAuc running;
  running.Add(s, y);
  Evaluation e;
  e.Add(s, y, {});
  EXPECT_NEAR(running.Value(), e.Compute().auc, 2e-3);
}

}  // namespace
}  // namespace starling
