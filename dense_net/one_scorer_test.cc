// A row's score does not depend on the rows around it, on tiles, on lanes or
// on threads; a step's results do not depend on threads.
#include <gtest/gtest.h>

#include <cstring>

#include "dense_net/test_world.h"

namespace starling {
namespace {

class OneScorerTest : public testing::TestWithParam<const char*> {};

void ExpectSameBits(const std::vector<float>& a, const std::vector<float>& b,
                    const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0) << what;
}

TEST_P(OneScorerTest, RowScoresAlikeInEveryBatchSize) {
  for (bool requests : {false, true}) {
    World world = MakeWorld(GetParam(), {.rows = 1000, .ids = 60, .requests = requests});
    auto network = MakeNetwork(world.spec);
    const std::vector<float> params = RandomParams(*network, 9);
    const std::vector<float> whole = RunScore(*network, world.batch, world.rows, params);
    for (uint32_t size : {1, 2, 3, 5, 17, 47, 48, 255, 256, 257}) {
      std::vector<float> parts;
      for (uint32_t first = 0; first < world.batch.rows; first += size) {
        const uint32_t count = std::min(size, world.batch.rows - first);
        std::vector<float> part =
            RunScore(*network, SubBatch(world.batch, first, count), world.rows, params);
        parts.insert(parts.end(), part.begin(), part.end());
      }
      ExpectSameBits(parts, whole, "batches of " + std::to_string(size));
    }
  }
}

TEST_P(OneScorerTest, TilesLanesAndThreadsDoNotChangeScores) {
  World world = MakeWorld(GetParam(), {.rows = 523, .ids = 60});
  const std::vector<float> params = RandomParams(*MakeNetwork(world.spec), 9);
  const std::vector<float> expected =
      RunScore(*MakeNetwork(world.spec), world.batch, world.rows, params);
  ThreadPool pool(3);
  for (int tile : {1, 7, 64, 1000}) {
    for (int lanes : {1, 3, 8}) {
      auto network = MakeNetwork(world.spec, {.tile = tile, .lanes = lanes});
      ExpectSameBits(RunScore(*network, world.batch, world.rows, params, &pool), expected,
                     "tile " + std::to_string(tile) + ", lanes " + std::to_string(lanes));
    }
  }
}

TEST_P(OneScorerTest, ThreadsDoNotChangeAStep) {
  World world = MakeWorld(GetParam(), {.rows = 777, .ids = 900});
  auto network = MakeNetwork(world.spec, {.tile = 64, .lanes = 4});
  const std::vector<float> params = RandomParams(*network, 9);
  auto expected = RunTrain(*network, world, params);
  ASSERT_TRUE(expected.ok());
  for (int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    std::unique_ptr<Workspace> workspace = network->NewWorkspace();
    for (int repeat = 0; repeat < 2; ++repeat) {
      auto result = RunTrain(*network, world, params, 5, &pool, workspace.get());
      ASSERT_TRUE(result.ok());
      EXPECT_EQ(result->loss, expected->loss);
      ExpectSameBits(result->scores, expected->scores, "scores");
      ExpectSameBits(result->param_grads, expected->param_grads, "parameter gradients");
      for (size_t t = 0; t < world.rows.size(); ++t) {
        ExpectSameBits(result->row_grads[t], expected->row_grads[t], "row gradients");
      }
    }
  }
}

// Widths around the vector, register block and panel sizes of the kernels.
INSTANTIATE_TEST_SUITE_P(
    Models, OneScorerTest,
    testing::Values(
        "lr {}", "fm {}", "dnn { hidden: 1 hidden: 15 hidden: 17 }",
        "dnn { hidden: 400 hidden: 33 }", "dnn { hidden: 16 hidden: 8 batch_norm: true }",
        "wide_deep { hidden: 7 hidden: 32 activation: SIGMOID }",
        "deepfm { hidden: 31 hidden: 13 activation: TANH dropout: 0.5 }",
        "deepfm { hidden: 20 hidden: 6 batch_norm: true dropout: 0.1 }",
        "dcnv2 { cross_layers: 2 hidden: 19 }",
        "dcnv2 { cross_layers: 2 hidden: 19 structure: STACKED batch_norm: true }",
        "dcnv2 { cross_layers: 3 }", "fwfm {}", "nfm { hidden: 9 }",
        "dcn { cross_layers: 2 hidden: 9 }", "xdeepfm { cin: 17 cin: 5 hidden: 9 }",
        "pnn { hidden: 9 }", "pnn { hidden: 9 product: OUTER }",
        "pnn { hidden: 9 product: BILINEAR }", "dlrm { bottom: 9 hidden: 9 }",
        "autoint { attention_layers: 2 heads: 2 attention_dim: 34 layer_norm: true "
        "dropout: 0.2 hidden: 9 }",
        "finalmlp { mlp1 { hidden: 34 } mlp2 { hidden: 10 batch_norm: true } heads: 2 "
        "gate1: 'f00' gate2: 'f10' gate_hidden: 5 }",
        "finalmlp { mlp1 { hidden: 34 } mlp2 { hidden: 10 } gate1: 'f00' gate_only: true }",
        "dnn { hidden: 21 activation: PRELU layer_norm: true }",
        "dnn { hidden: 21 activation: GELU }", "dnn { hidden: 21 residual { blocks: 2 } }",
        "dnn { hidden: 8 residual { kind: WIDE } }",
        "dnn { hidden: 68 residual { kind: GROUPED } }",
        "dcnv2 { cross_layers: 2 rank: 5 experts: 3 }", "dnn { hidden: 21 activation: LEAKY_RELU }",
        "din { attention { sequence: 's0' sequence: 's1' target: 'f00' target: 'f10' } "
        "attention_hidden: 17 hidden: 9 }",
        "din { attention { sequence: 's0' target: 'f00' } "
        "attention { sequence: 's1' target: 'f11' } attention_activation: SIGMOID "
        "attention_softmax: true hidden: 20 activation: RELU }",
        "dien { attention { sequence: 's0' sequence: 's1' target: 'f00' target: 'f10' } "
        "attention_hidden: 8 hidden: 12 }",
        "custom { inputs { name: 'user' features: 'f00' features: 'f01' } "
        "inputs { name: 'item' features: 'f10' features: 'f11' features: 'r1' } "
        "blocks { name: 'u' from: 'user' mlp { hidden: 4 activation: TANH } } "
        "blocks { name: 'i' from: 'item' linear { width: 4 } } "
        "blocks { name: 'ui' from: 'u' from: 'i' multiply {} } "
        "blocks { name: 'n' from: 'ui' from: 'raw' layer_norm {} } "
        "blocks { name: 'x' from: 'n' cross { layers: 1 } } "
        "blocks { name: 'top' from: 'x' linear {} } "
        "blocks { name: 'pairs' from: 'user' fm {} } "
        "blocks { name: 'all' from: 'embedding' dots {} } "
        "blocks { name: 'both' from: 'embedding' bi_interaction {} } "
        "blocks { name: 'side' from: 'all' from: 'both' concat {} } "
        "blocks { name: 'sides' from: 'side' linear {} } "
        "blocks { name: 'sum' from: 'top' from: 'pairs' from: 'sides' from: 'first_order' add {} } "
        "outputs: 'sum' }",
        "dnn { hidden: 9 } | name: 'a' label: 'y1' loss { pairwise {} }",
        "esmm { hidden: 17 batch_norm: true } | name: 'a' label: 'y0' | name: 'b' "
        "label: 'y1'",
        "mmoe { experts: 3 expert { hidden: 9 hidden: 17 } tower { hidden: 5 } } | "
        "name: 'a' label: 'y0' | name: 'b' label: 'y1'",
        "ple { levels: 2 expert { hidden: 8 } tower { hidden: 5 } } | name: 'a' label: "
        "'y0' | name: 'b' label: 'y1' loss { mse {} }",
        "dssm { user: 'f00' user: 'r0' user: 'r1' item: 'f01' item: 'f10' item: 'f11' "
        "tower { hidden: 15 hidden: 8 } } | name: 'a' label: 'y1' loss { "
        "sampled_softmax { item: 'f01' } }"));

}  // namespace
}  // namespace starling
