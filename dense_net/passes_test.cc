// Passes by what they leave of a graph, and by the bits that stay.
#include <gtest/gtest.h>

#include "dense_net/graph_passes.h"
#include "dense_net/losses.h"
#include "dense_net/models.h"
#include "dense_net/test_world.h"

namespace starling {
namespace {

std::vector<std::string> Names(const Graph& graph) {
  std::vector<std::string> names;
  for (const auto& op : graph.ops) names.push_back(op->name());
  return names;
}
using Strings = std::vector<std::string>;

TEST(MergeCommonOps, KeepsOneOfEqualOps) {
  GraphBuilder builder;
  const Value a = RawInput(&builder, 3), b = RawInput(&builder, 3);
  const Value one = Activate(&builder, "one", a, MlpOptions::TANH);
  const Value two = Activate(&builder, "two", b, MlpOptions::TANH);
  const Value other = Activate(&builder, "other", b, MlpOptions::SIGMOID);
  const Value both = Concat(&builder, "both", {one, two, other});
  LogLoss(&builder, {.name = "loss", .output = 0}, FullyConnected(&builder, "logit", both, {}));
  Graph graph = builder.Finish();
  MergeCommonOps(&graph);
  EXPECT_EQ(Names(graph), (Strings{"raw", "one", "other", "both", "logit", "loss"}));
  EXPECT_EQ(graph.ops[3]->inputs()[0].id, 1);
  EXPECT_EQ(graph.ops[3]->inputs()[1].id, 1);
  EXPECT_EQ(graph.ops[3]->inputs()[2].id, 2);
}

// Equal arguments do not make these equal: each has its own weights or mask.
TEST(MergeCommonOps, LeavesOpsWithWeightsOrMasksOfTheirOwn) {
  GraphBuilder builder;
  const Value x = RawInput(&builder, 3);
  const Value a = FullyConnected(&builder, "a", x, {}), b = FullyConnected(&builder, "b", x, {});
  const Value c = Dropout(&builder, "c", x, 0.5), d = Dropout(&builder, "d", x, 0.5);
  const Value e = BatchNorm(&builder, "e", x), f = BatchNorm(&builder, "f", x);
  const Value all = Concat(&builder, "all", {Concat(&builder, "half", {a, b, c, d}), e, f});
  LogLoss(&builder, {.name = "loss", .output = 0}, FullyConnected(&builder, "logit", all, {}));
  Graph graph = builder.Finish();
  const size_t before = graph.ops.size();
  MergeCommonOps(&graph);
  EXPECT_EQ(graph.ops.size(), before);
}

TEST(RemoveDeadOps, DropsWhatNoLossReads) {
  GraphSpec spec = MakeWorld("fm {}", {}).spec;
  GraphBuilder builder;
  const Value dead = RawInput(&builder, 2);
  Activate(&builder, "dead too", dead, MlpOptions::RELU);
  const Value x = EmbeddingInput(&builder, spec);
  LogLoss(&builder, {.name = "loss", .output = 0}, FmSecondOrder(&builder, x, 3));
  LinearInput(&builder, spec);
  Graph graph = builder.Finish();
  RemoveDeadOps(&graph);
  EXPECT_EQ(Names(graph), (Strings{"embedding", "fm", "loss"}));
  EXPECT_EQ(graph.embedding, 0);
  EXPECT_EQ(graph.linear, -1);
  EXPECT_EQ(graph.ops[1]->inputs()[0].id, 0);
}

TEST(Passes, ModelsHaveNeitherTwinsNorDeadOps) {
  for (const char* model : {"lr {}", "deepfm { hidden: 8 }", "dcnv2 { cross_layers: 2 hidden: 8 }",
                            "wide_deep { hidden: 4 dropout: 0.5 }"}) {
    auto graph = BuildGraph(MakeWorld(model, {}).spec);
    ASSERT_TRUE(graph.ok());
    const Strings before = Names(*graph);
    MergeCommonOps(&*graph);
    RemoveDeadOps(&*graph);
    EXPECT_EQ(Names(*graph), before) << model;
  }
}

}  // namespace
}  // namespace starling
