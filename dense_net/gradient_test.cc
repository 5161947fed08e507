// Every model's gradients against central differences of its own loss, in a
// build of dense_net whose numbers are doubles (real.h).
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "dense_net/test_world.h"

namespace starling {
namespace {

static_assert(sizeof(Real) == 8);

TEST(TestWorld, OccurrencesMirrorTheSlots) {
  World world = MakeWorld("lr {}", {});
  for (const TableIds& table : world.batch.tables) {
    size_t values = 0;
    for (const Slot& slot : table.slots) values += slot.index.size();
    EXPECT_EQ(table.occurrences.size(), values);
    EXPECT_EQ(table.occurrence_offsets.size(), table.ids.size() + 1);
  }
}

class GradientTest : public testing::TestWithParam<const char*> {};

// The differences are off by about kEps² for curvature and 1e-16 / kEps for rounding.
constexpr double kEps = 1e-5;

double LossAt(const Network& network, const World& world, const std::vector<Real>& params) {
  auto result = RunTrain(network, world, params);
  EXPECT_TRUE(result.ok()) << result.status();
  return result->loss;
}

// The slope of the loss along *x, which may lie in `world` or `params`.
double Slope(const Network& network, const World& world, const std::vector<Real>& params, Real* x) {
  const Real at = *x;
  *x = at + kEps;
  const double above = LossAt(network, world, params), high = *x;
  *x = at - kEps;
  const double below = LossAt(network, world, params), low = *x;
  *x = at;
  return (above - below) / (high - low);
}

void ExpectClose(double grad, double slope, const std::string& what) {
  EXPECT_NEAR(grad, slope, 1e-9 + 1e-6 * std::fabs(slope)) << what;
}

TEST_P(GradientTest, MatchesCentralDifferences) {
  World world = MakeWorld(GetParam(), {.rows = 11, .seed = 3});
  // Tiles of 4 rows in 2 lanes: sums over tiles and lanes are in the check.
  auto network =
      MakeNetwork(world.spec, {.tile = 4, .lanes = 2, .sharing = Sharing::kWhereverPossible});
  std::vector<Real> params = RandomParams(*network, 4);
  auto result = RunTrain(*network, world, params);
  ASSERT_TRUE(result.ok()) << result.status();

  double largest = 0;
  for (const ParamSpec& spec : network->params()) {
    for (int64_t i = 0; i < spec.size() && !spec.statistic; ++i) {
      const int64_t at = spec.offset + i;
      ExpectClose(result->param_grads[at], Slope(*network, world, params, &params[at]),
                  absl::StrCat(spec.name, " ", i));
      largest = std::max(largest, std::fabs(result->param_grads[at]));
    }
  }
  EXPECT_GT(largest, 0.004) << "the check would pass for gradients of zero";
  for (size_t t = 0; t < world.rows.size(); ++t) {
    largest = 0;
    for (size_t i = 0; i < world.rows[t].size(); ++i) {
      ExpectClose(result->row_grads[t][i], Slope(*network, world, params, &world.rows[t][i]),
                  absl::StrCat("table ", t, " float ", i));
      largest = std::max(largest, std::fabs(result->row_grads[t][i]));
    }
    EXPECT_GT(largest, 0.004);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, GradientTest,
    testing::Values(
        "deepfm { hidden: 17 }", "dcnv2 { cross_layers: 1 hidden: 16 batch_norm: true }", "lr {}",
        "fm {}", "dnn { hidden: 5 hidden: 3 activation: TANH }",
        "dnn { hidden: 17 hidden: 18 activation: SIGMOID }", "dnn { hidden: 7 hidden: 6 }",
        "dnn { hidden: 5 hidden: 4 activation: TANH batch_norm: true }",
        "dnn { hidden: 6 activation: TANH dropout: 0.3 }",
        "wide_deep { hidden: 4 activation: TANH }", "deepfm { hidden: 4 activation: TANH }",
        "deepfm { hidden: 6 hidden: 5 activation: TANH batch_norm: true dropout: 0.25 }",
        "dcnv2 { cross_layers: 2 hidden: 4 activation: TANH }",
        "dcnv2 { cross_layers: 1 hidden: 4 activation: SIGMOID batch_norm: true }",
        "dcnv2 { cross_layers: 2 hidden: 4 activation: TANH structure: STACKED }",
        "dcnv2 { cross_layers: 3 }", "fwfm {}", "nfm { hidden: 5 activation: TANH }",
        "dcn { cross_layers: 3 hidden: 4 activation: TANH }", "dcn { cross_layers: 2 }",
        "xdeepfm { cin: 5 cin: 3 hidden: 4 activation: TANH }", "xdeepfm { cin: 18 }",
        "pnn { hidden: 5 activation: TANH }", "pnn { hidden: 4 activation: TANH product: OUTER }",
        "pnn { hidden: 4 activation: TANH product: BILINEAR }",
        "dlrm { bottom: 4 hidden: 5 activation: TANH }",
        "autoint { attention_layers: 2 heads: 2 attention_dim: 6 layer_norm: true hidden: 4 "
        "activation: TANH wide: true }",
        "autoint { attention_layers: 2 heads: 3 attention_dim: 3 residual: false dropout: 0.2 "
        "wide: true }",
        "finalmlp { mlp1 { hidden: 6 activation: TANH } mlp2 { hidden: 4 batch_norm: true } "
        "heads: 2 gate1: 'f00' gate2: 'f10' gate2: 'f11' gate_hidden: 3 }",
        "finalmlp { mlp1 { hidden: 17 activation: TANH } mlp2 { hidden: 18 activation: TANH } }",
        "finalmlp { mlp1 { hidden: 6 activation: TANH } mlp2 { hidden: 4 activation: TANH } "
        "gate1: 'f00' gate2: 'f11' gate_hidden: 3 gate_only: true }",
        "dnn { hidden: 7 hidden: 5 activation: PRELU layer_norm: true }",
        "dnn { hidden: 4 hidden: 6 activation: TANH residual {} }",
        "dnn { hidden: 4 activation: TANH batch_norm: true residual { kind: WIDE blocks: 2 } }",
        "dnn { hidden: 6 activation: TANH layer_norm: true residual { kind: GROUPED groups: 2 } }",
        "dcnv2 { cross_layers: 2 rank: 3 experts: 2 }",
        "dcnv2 { cross_layers: 1 rank: 17 experts: 3 hidden: 4 activation: TANH }",
        "dnn { hidden: 7 activation: GELU }", "dnn { hidden: 7 activation: LEAKY_RELU }",
        "dnn { hidden: 5 hidden: 4 activation: DICE }",
        "din { attention { sequence: 's0' sequence: 's1' target: 'f00' target: 'f10' } "
        "attention_hidden: 5 hidden: 4 }",
        "din { attention { sequence: 's1' target: 'f11' } attention { sequence: 's0' target: 'f00' "
        "} "
        "attention_hidden: 5 attention_activation: TANH attention_softmax: true hidden: 4 "
        "activation: TANH }",
        "dien { attention { sequence: 's0' sequence: 's1' target: 'f00' target: 'f10' } "
        "attention_hidden: 4 attention_activation: TANH hidden: 4 activation: TANH }",
        "dien { attention { sequence: 's0' target: 'f01' } attention { sequence: 's1' target: "
        "'f10' } "
        "attention_hidden: 4 evolution: AIGRU auxiliary_weight: 0.3 hidden: 3 }",
        // Losses.
        "dnn { hidden: 4 activation: TANH } | name: 'a' label: 'y1' weight: 0.5 "
        "loss { log { positive_weight: 3 } }",
        "dnn { hidden: 4 activation: TANH } | name: 'a' label: 'y1' given: 'y0' weight: "
        "4 loss { focal { gamma: 1.5 alpha: 0.3 } }",
        "dnn { hidden: 4 activation: TANH } | name: 'a' label: 'y1' loss { mse {} }",
        "dnn { hidden: 4 activation: TANH } | name: 'a' label: 'y0' weight: 4 loss { pairwise {} }",
        // Several tasks.
        "esmm { hidden: 4 activation: TANH } | name: 'a' label: 'y0' | name: 'b' label: 'y1'",
        "mmoe { experts: 3 expert { hidden: 4 activation: TANH } tower { hidden: 3 activation: "
        "TANH } } | name: 'a' label: 'y0' | name: 'b' label: 'y1' weight: 2 loss { mse {} }",
        "mmoe { experts: 2 expert { hidden: 4 hidden: 3 activation: TANH batch_norm: true } } | "
        "name: 'a' label: 'y0' | name: 'b' label: 'y1' | name: 'c' label: 'y1' given: 'y0'",
        "ple { levels: 2 expert { hidden: 4 hidden: 3 activation: TANH } tower { hidden: 3 "
        "activation: TANH } } | name: 'a' label: 'y0' weight: 4 | name: 'b' label: 'y1' weight: 4",
        // Blocks: every kind, towers of named inputs, first order.
        "custom { inputs { name: 'user' features: 'f00' features: 'f01' } "
        "inputs { name: 'item' features: 'f10' features: 'f11' features: 'r1' } "
        "blocks { name: 'u' from: 'user' mlp { hidden: 4 activation: TANH } } "
        "blocks { name: 'i' from: 'item' linear { width: 4 } } "
        "blocks { name: 'ui' from: 'u' from: 'i' multiply {} } "
        "blocks { name: 'n' from: 'ui' from: 'raw' layer_norm {} } "
        "blocks { name: 'x' from: 'n' cross { layers: 1 rank: 2 experts: 2 } } "
        "blocks { name: 'top' from: 'x' linear {} } "
        "blocks { name: 'pairs' from: 'user' fm {} } "
        "blocks { name: 'all' from: 'embedding' dots {} } "
        "blocks { name: 'both' from: 'embedding' bi_interaction {} } "
        "blocks { name: 'side' from: 'all' from: 'both' concat {} } "
        "blocks { name: 'sides' from: 'side' linear {} } "
        "blocks { name: 'sum' from: 'top' from: 'pairs' from: 'sides' from: 'first_order' add {} } "
        "outputs: 'sum' }",
        // Two towers.
        "dssm { user: 'f00' user: 'r0' item: 'f01' item: 'f10' item: 'f11' item: 'r1' "
        "tower { hidden: 5 hidden: 3 activation: TANH } temperature: 0.5 }",
        "dssm { user: 'f00' user: 'f11' user: 'r0' user: 'r1' item: 'f01' item: 'f10' match: DOT "
        "tower { hidden: 3 } temperature: 2 } | name: 'a' label: 'y1' loss { sampled_softmax { "
        "item: 'f00' } }",
        "dssm { user: 'f00' user: 'f11' user: 'r0' user: 'r1' item: 'f01' item: 'f10' match: DOT "
        "tower { hidden: 3 } temperature: 2 } | name: 'a' label: 'y1' loss { sampled_softmax { "
        "item: 'f10' negatives: 3 sampler: LOG_UNIFORM streaming { buckets: 5 } } }"));

}  // namespace
}  // namespace starling
