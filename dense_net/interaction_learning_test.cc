// Planted signals that a model sees and a weaker one does not: fields of two
// ids each, a row for every combination, and a label that is their function.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "dense_net/test_world.h"

namespace starling {
namespace {

// An id as -1 or 1.
using Label = std::function<bool(const std::vector<int>& ids)>;

World BinaryWorld(const std::string& model, int fields, int dim, const Label& label) {
  World world;
  *world.spec.mutable_model() = ParseModel(model);
  world.spec.set_seed(1);
  Batch& batch = world.batch;
  batch.rows = batch.requests = 1u << fields;
  for (int f = 0; f < fields; ++f) {
    world.spec.add_table_width(1 + dim);
    SlotSpec* spec = world.spec.add_slots();
    spec->set_name(absl::StrCat("f", f));
    spec->set_table(f);
    spec->set_slot(0);
    spec->set_linear_offset(0);
    spec->set_embedding_offset(1);
    spec->set_embedding_dim(dim);
    TableIds& table = batch.tables.emplace_back();
    table.ids = {0, 1};
    Slot& slot = table.slots.emplace_back();
    for (uint32_t i = 0; i < batch.rows; ++i) {
      slot.offsets.push_back(i);
      slot.index.push_back(i >> f & 1);
    }
    slot.offsets.push_back(batch.rows);
    std::vector<Real>& rows = world.rows.emplace_back();
    for (int i = 0; i < 2 * (1 + dim); ++i) {
      rows.push_back(static_cast<Real>(0.3 * RandomNormal(7 + f, i)));
    }
  }
  for (uint32_t i = 0; i < batch.rows; ++i) {
    std::vector<int> ids;
    for (int f = 0; f < fields; ++f) ids.push_back(i >> f & 1 ? 1 : -1);
    batch.labels.push_back(label(ids) ? 1 : 0);
  }
  LinkOccurrences(&batch);
  return world;
}

// The lowest loss of some hundred steps of Adam.
double LossOf(World world) {
  auto network = MakeNetwork(world.spec, {.tile = 16, .lanes = 2});
  std::vector<Real> params(network->param_floats());
  network->InitParams(params);
  std::vector<std::vector<double>> state(world.rows.size() + 1);
  auto step = [&](int s, size_t at, std::vector<Real>* x, const std::vector<Real>& grad) {
    constexpr double kLr = 0.03;
    state[at].resize(2 * x->size());
    for (size_t i = 0; i < x->size(); ++i) {
      double &m = state[at][2 * i], &v = state[at][2 * i + 1];
      m = 0.9 * m + 0.1 * grad[i];
      v = 0.99 * v + 0.01 * grad[i] * grad[i];
      const double mean = m / (1 - std::pow(0.9, s)), square = v / (1 - std::pow(0.99, s));
      (*x)[i] -= static_cast<Real>(kLr * mean / (std::sqrt(square) + 1e-8));
    }
  };
  double lowest = 1;
  for (int s = 1; s <= 400; ++s) {
    auto result = RunTrain(*network, world, params, s);
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return 1;
    lowest = std::min(lowest, result->loss);
    for (size_t t = 0; t < world.rows.size(); ++t) {
      step(s, t, &world.rows[t], result->row_grads[t]);
    }
    step(s, world.rows.size(), &params, result->param_grads);
  }
  return lowest;
}

TEST(InteractionLearning, LrCountsVotes) {
  EXPECT_LT(
      LossOf(BinaryWorld("lr {}", 3, 1,
                         [](const std::vector<int>& ids) { return ids[0] + ids[1] + ids[2] > 0; })),
      0.05);
}

// Positive where votes are split: every pair of fields should differ, which one
// number an id cannot say of three fields unless pairs have weights.
double SplitVotes(const char* model) {
  return LossOf(BinaryWorld(model, 5, 1, [](const std::vector<int>& ids) {
    int sum = 0;
    for (int id : ids) sum += id;
    return sum * sum == 1;
  }));
}

TEST(InteractionLearning, FwFmWeighsPairsOfFieldsAsFmCannot) {
  EXPECT_GT(SplitVotes("fm {}"), 0.3);
  EXPECT_LT(SplitVotes("fwfm {}"), 0.05);
}

// The sign of a product of three ids: no pair of them tells anything.
double ThreeWay(const char* model) {
  return LossOf(BinaryWorld(
      model, 4, 4, [](const std::vector<int>& ids) { return ids[0] * ids[1] * ids[2] > 0; }));
}

// What PNN and DLRM put below their MLP, without it.
constexpr char kProductsAlone[] =
    "custom { blocks { name: 'products' from: 'embedding' dots {} } "
    "blocks { name: 'top' from: 'embedding' from: 'products' linear {} } outputs: 'top' }";

TEST(InteractionLearning, ProductsOfPairsDoNotSeeACrossOfThree) {
  for (const char* model : {"lr {}", "fm {}", "fwfm {}", "dcn { cross_layers: 1 }",
                            "dcnv2 { cross_layers: 1 }", "xdeepfm { cin: 6 }", kProductsAlone}) {
    EXPECT_GT(ThreeWay(model), 0.5) << model;
  }
}

class ThreeWayTest : public testing::TestWithParam<const char*> {};

TEST_P(ThreeWayTest, SeesACrossOfThree) { EXPECT_LT(ThreeWay(GetParam()), 0.05); }

INSTANTIATE_TEST_SUITE_P(
    Models, ThreeWayTest,
    testing::Values("wide_deep { hidden: 16 }", "deepfm { hidden: 16 }", "nfm { hidden: 16 }",
                    "dcn { cross_layers: 2 }", "dcnv2 { cross_layers: 2 }",
                    "xdeepfm { cin: 6 cin: 6 }", "pnn { hidden: 16 }",
                    "pnn { hidden: 16 product: OUTER }", "pnn { hidden: 16 product: BILINEAR }",
                    "dlrm { hidden: 16 }",
                    "autoint { attention_layers: 2 heads: 2 attention_dim: 8 }",
                    "autoint { attention_layers: 1 attention_dim: 4 hidden: 16 wide: true }",
                    "finalmlp { mlp1 { hidden: 16 } mlp2 { hidden: 8 } heads: 2 gate1: 'f0' "
                    "gate2: 'f1' gate_hidden: 8 }",
                    "dnn { hidden: 16 activation: PRELU layer_norm: true }",
                    "dcnv2 { cross_layers: 2 rank: 4 experts: 2 }",
                    "dnn { hidden: 16 residual {} }", "dnn { hidden: 8 residual { kind: WIDE } }",
                    "dnn { hidden: 16 residual { kind: GROUPED } }",
                    "dnn { hidden: 16 activation: GELU }",
                    "dnn { hidden: 16 activation: LEAKY_RELU }"));

}  // namespace
}  // namespace starling
