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

TEST(ModelEvaluationTest, EachOutputIsJudgedByItsLabelOnItsRows) {
  const std::vector<OutputSpec> outputs = {{.name = "ctr", .label = 0},
                                           {.name = "cvr", .label = 1, .given = 0},
                                           {.name = "time", .label = 2, .probability = false}};
  Batch batch;
  batch.rows = 4;
  batch.labels = {1, 1, 3, /**/ 1, 0, 1, /**/ 0, 0, 2, /**/ 0, 0, 0};
  batch.groups = {1, 1, 2, 2};
  const std::vector<float> scores = {.9f,      .8f,  4, /**/ .2f, .3f,  1,
                                     /**/ .3f, .99f, 2, /**/ .1f, .99f, 2};
  ModelEvaluation evaluation(outputs);
  evaluation.Add(scores, batch);
  evaluation.Add({}, Batch());
  const std::vector<EvalMetrics> m = evaluation.Compute();
  ASSERT_EQ(m.size(), 3u);
  EXPECT_EQ(m[0].output, "ctr");
  EXPECT_EQ(m[0].samples, 4);
  EXPECT_EQ(m[0].auc, 0.75);
  EXPECT_EQ(m[1].samples, 2);  // The clicked rows.
  EXPECT_EQ(m[1].auc, 1);
  EXPECT_EQ(m[1].gauc_groups, 1);
  EXPECT_NEAR(m[2].rmse, std::sqrt(5.0 / 4), 1e-12);
}

TEST(ModelEvaluationTest, JsonHasTheFirstOutputAndAllOfSeveralByName) {
  EvalMetrics ctr, time;
  ctr.output = "ctr";
  ctr.auc = 0.75;
  ctr.samples = 4;
  time.output = "time";
  time.probability = false;
  time.rmse = 2;
  time.samples = 3;
  const std::string one =
      "\"auc\": 0.750000, \"gauc\": 0.000000, \"logloss\": 0.000000, \"ne\": 0.000000, "
      "\"calibration\": 0.000000";
  EXPECT_EQ(MetricsJson({ctr}), one);
  EXPECT_EQ(MetricsJson({ctr, time}),
            one + ", \"tasks\": {\"ctr\": {" + one + ", \"samples\": 4}, \"time\": {\"auc\": " +
                "null, \"logloss\": null, \"rmse\": 2.000000, \"samples\": 3}}");
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
