#include <gtest/gtest.h>

#include <cstring>

#include "dense_net/graph_passes.h"
#include "dense_net/models.h"
#include "dense_net/test_world.h"

namespace starling {
namespace {

std::vector<std::string> Names(const Graph& graph) {
  std::vector<std::string> names;
  for (const auto& op : graph.ops) names.push_back(op->name());
  return names;
}

Graph Fuse(const std::string& model) {
  Graph graph = BuildGraph(MakeWorld(model, {}).spec).value();
  FuseChains(&graph);
  return graph;
}

TEST(FuseChains, LinearActivationAndDropoutBecomeOneOp) {
  const Graph graph = Fuse("dnn { hidden: 5 hidden: 4 dropout: 0.2 }");
  EXPECT_EQ(Names(graph), (std::vector<std::string>{"embedding", "raw", "input", "mlp.0", "mlp.1",
                                                    "mlp.logit", "loss"}));
  EXPECT_EQ(graph.ops[4]->inputs()[0].id, 3);
  EXPECT_EQ(graph.embedding, 0);
}

// A sigmoid's slope is a function of its output, which dropout would overwrite.
TEST(FuseChains, DropoutStaysApartFromAnActivationWhoseOutputBackwardReads) {
  const Graph graph = Fuse("dnn { hidden: 5 activation: SIGMOID dropout: 0.2 }");
  EXPECT_EQ(Names(graph), (std::vector<std::string>{"embedding", "raw", "input", "mlp.0",
                                                    "mlp.0.dropout", "mlp.logit", "loss"}));
}

TEST(FuseChains, ValueThatAnotherOpReadsIsLeftAlone) {
  GraphBuilder builder;
  const Value x = RawInput(&builder, 3);
  const Value linear = FullyConnected(&builder, "linear", x, {.width = 3});
  const Value active = Activate(&builder, "active", linear, MlpOptions::RELU);
  Add(&builder, "sum", {linear, active});
  Graph graph = builder.Finish();
  FuseChains(&graph);
  EXPECT_EQ(Names(graph), (std::vector<std::string>{"raw", "linear", "active", "sum"}));
}

TEST(FuseChains, BatchNormBetweenLinearAndActivationIsNotCrossed) {
  const Graph graph = Fuse("dnn { hidden: 5 batch_norm: true }");
  EXPECT_EQ(graph.ops.size(),
            BuildGraph(MakeWorld("dnn { hidden: 5 batch_norm: true }", {}).spec)->ops.size());
}

TEST(FuseChains, ACrossLayerIsOneOp) {
  const Graph graph = Fuse("dcnv2 { cross_layers: 2 }");
  EXPECT_EQ(Names(graph), (std::vector<std::string>{"embedding", "raw", "input", "cross.0.combine",
                                                    "cross.1.combine", "logit", "loss"}));
  EXPECT_EQ(graph.ops[4]->inputs()[0].id, 2);  // x0
  EXPECT_EQ(graph.ops[4]->inputs()[1].id, 3);  // x
}

class FusedStepTest : public testing::TestWithParam<const char*> {};

TEST_P(FusedStepTest, GivesTheBitsOfTheGraphAsBuilt) {
  const World world = MakeWorld(GetParam(), {.rows = 523, .ids = 60});
  auto fused = MakeNetwork(world.spec, {.tile = 200, .lanes = 2});
  auto built = MakeNetwork(world.spec, {.tile = 200, .lanes = 2, .fuse = false});
  const std::vector<Real> params = RandomParams(*fused, 9);
  auto a = RunTrain(*fused, world, params), b = RunTrain(*built, world, params);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->loss, b->loss);
  EXPECT_EQ(a->scores, b->scores);
  EXPECT_EQ(a->row_grads, b->row_grads);
  ASSERT_EQ(a->param_grads.size(), b->param_grads.size());
  EXPECT_EQ(std::memcmp(a->param_grads.data(), b->param_grads.data(),
                        a->param_grads.size() * sizeof(Real)),
            0);
  EXPECT_EQ(RunScore(*fused, world.batch, world.rows, params),
            RunScore(*built, world.batch, world.rows, params));
}

INSTANTIATE_TEST_SUITE_P(
    Models, FusedStepTest,
    testing::Values("dnn { hidden: 20 hidden: 9 dropout: 0.3 }",
                    "dnn { hidden: 20 hidden: 9 activation: TANH dropout: 0.3 }",
                    "deepfm { hidden: 17 activation: SIGMOID }",
                    "dcnv2 { cross_layers: 2 hidden: 8 hidden: 7 batch_norm: true dropout: 0.1 }",
                    "dcnv2 { cross_layers: 1 }",
                    "dcnv2 { cross_layers: 3 rank: 5 experts: 2 structure: STACKED hidden: 8 }",
                    "custom { blocks { name: 'x' from: 'raw' cross { layers: 2 } } "
                    "blocks { name: 'y' from: 'x' linear {} } outputs: 'y' }"));

}  // namespace
}  // namespace starling
