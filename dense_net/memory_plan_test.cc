#include "dense_net/memory_plan.h"

#include <gtest/gtest.h>

#include "dense_net/models.h"
#include "dense_net/test_world.h"

namespace starling {
namespace {

constexpr const char* kModel =
    "dcnv2 { cross_layers: 3 hidden: 40 hidden: 40 hidden: 40 batch_norm: true dropout: 0.1 }";

TEST(MemoryPlan, ScoringReusesPlacesThatTrainingKeeps) {
  auto graph = BuildGraph(MakeWorld(kModel, {}).spec);
  ASSERT_TRUE(graph.ok());
  int64_t widths = 0;
  for (const auto& op : graph->ops) widths += op->width();
  const MemoryPlan training = PlanMemory(*graph, true), scoring = PlanMemory(*graph, false);
  EXPECT_LT(training.width, 2 * widths);
  EXPECT_LT(scoring.width, training.width / 2);
}

TEST(MemoryPlan, InputsAndOutputOfAnOpNeverOverlapUnlessInPlace) {
  for (bool training : {false, true}) {
    auto graph = BuildGraph(MakeWorld(kModel, {}).spec);
    ASSERT_TRUE(graph.ok());
    const MemoryPlan plan = PlanMemory(*graph, training);
    for (size_t i = 0; i < graph->ops.size(); ++i) {
      const Op& op = *graph->ops[i];
      for (const Value& input : op.inputs()) {
        const int64_t a = plan.value[i], b = plan.value[input.id];
        const bool apart = a + op.width() <= b || b + input.width <= a;
        EXPECT_TRUE(apart || (op.in_place() && a == b)) << op.name();
      }
    }
  }
}

TEST(MemoryPlan, GradientOfAValueReadTwiceIsAddedToTheSecondTime) {
  auto graph = BuildGraph(MakeWorld("dcnv2 { cross_layers: 1 }", {.raws = 0}).spec);
  ASSERT_TRUE(graph.ok());
  const MemoryPlan plan = PlanMemory(*graph, true);
  // Ops: embedding, cross.0, combine(x0, u, x) with x = x0, logit, loss.
  ASSERT_EQ(graph->ops[2]->inputs()[0].id, graph->ops[2]->inputs()[2].id);
  EXPECT_FALSE(plan.in_add[2][0]);
  EXPECT_FALSE(plan.in_add[2][1]);
  EXPECT_TRUE(plan.in_add[2][2]);
  EXPECT_TRUE(plan.in_add[1][0]);
}

}  // namespace
}  // namespace starling
