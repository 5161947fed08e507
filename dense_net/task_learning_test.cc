// Planted second tasks: what models of several outputs learn and others cannot.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/random.h"
#include "dense_net/test_world.h"

namespace starling {
namespace {

constexpr int kIds = 8, kDim = 4;

// What rows of ids (a, b) teach: each of `repeat` rows a cell, in order.
using Labels = std::function<std::vector<float>(int a, int b, int i)>;

// Features a and b, an id each of kIds, in all combinations.
World CellWorld(const std::string& model, int repeat, const Labels& labels) {
  World world;
  ParseSpec(model, &world.spec);
  world.spec.set_seed(1);
  world.batch.rows = kIds * kIds * repeat;
  for (int t = 0; t < 2; ++t) {
    world.spec.add_table_width(kDim);
    SlotSpec* spec = world.spec.add_slots();
    spec->set_name(t == 0 ? "a" : "b");
    spec->set_table(t);
    spec->set_slot(0);
    spec->set_embedding_offset(0);
    spec->set_embedding_dim(kDim);
    TableIds& table = world.batch.tables.emplace_back();
    table.slots.emplace_back().offsets = {0};
    for (uint32_t u = 0; u < kIds; ++u) table.ids.push_back(u);
    auto& rows = world.rows.emplace_back();
    for (int i = 0; i < kIds * kDim; ++i) {
      rows.push_back(static_cast<Real>(0.3 * RandomNormal(7 + t, i)));
    }
  }
  for (uint32_t row = 0; row < world.batch.rows; ++row) {
    const int cell = static_cast<int>(row) / repeat, a = cell / kIds, b = cell % kIds;
    for (int t = 0; t < 2; ++t) {
      Slot& slot = world.batch.tables[t].slots[0];
      slot.index.push_back(t == 0 ? a : b);
      slot.offsets.push_back(row + 1);
    }
    for (float y : labels(a, b, static_cast<int>(row) % repeat)) world.batch.labels.push_back(y);
  }
  LinkOccurrences(&world.batch);
  return world;
}

struct Fitted {
  std::unique_ptr<Network> network;
  std::vector<Real> params;
  double loss = 0;
};

// Plain gradient descent on the whole batch.
Fitted Fit(World* world, int steps, double lr) {
  Fitted fitted{.network = MakeNetwork(world->spec, {.tile = 128, .lanes = 2})};
  std::vector<Real>& params = fitted.params;
  params.resize(fitted.network->param_floats());
  fitted.network->InitParams(params);
  auto workspace = fitted.network->NewWorkspace();
  for (int s = 0; s < steps; ++s) {
    auto step = RunTrain(*fitted.network, *world, params, s, nullptr, workspace.get());
    if (!step.ok()) {
      ADD_FAILURE() << step.status();
      return fitted;
    }
    fitted.loss = step->loss;
    for (size_t i = 0; i < params.size(); ++i) {
      params[i] -= static_cast<Real>(lr * step->param_grads[i]);
    }
    for (size_t t = 0; t < world->rows.size(); ++t) {
      for (size_t i = 0; i < world->rows[t].size(); ++i) {
        world->rows[t][i] -= static_cast<Real>(lr * step->row_grads[t][i]);
      }
    }
  }
  return fitted;
}

// Clicks follow a alone: 8 - a of 8. Conversions follow clicks, the likelier the
// rarer the click: of the clicks of a, (a + 1) / 9. So the share of rows that
// convert says the reverse of what conversion given a click is.
std::vector<float> ClickAndConversion(int a, int /*b*/, int i) {
  const int clicks = (kIds - a) * 9, converted = (kIds - a) * (a + 1);  // Of 72 rows.
  return {i < clicks ? 1.0f : 0.0f, i < converted ? 1.0f : 0.0f};
}
double TrueCvr(int a) { return (a + 1) / 9.0; }

double CvrError(const World& world, const Fitted& fitted, int column) {
  const auto scores = RunScore(*fitted.network, world.batch, world.rows, fitted.params);
  const size_t outputs = fitted.network->outputs().size();
  double worst = 0;
  for (int a = 0; a < kIds; ++a) {
    const size_t row = size_t(a) * kIds * 72;
    worst = std::max(worst, std::fabs(scores[row * outputs + column] - TrueCvr(a)));
  }
  return worst;
}

TEST(TaskLearning, EsmmFindsConversionGivenAClickOnAllThatWasExposed) {
  World world =
      CellWorld("esmm { hidden: 16 } | name: 'ctr' label: 'y0' | name: 'ctcvr' label: 'y1'", 72,
                ClickAndConversion);
  const Fitted esmm = Fit(&world, 400, 1);
  ASSERT_EQ(esmm.network->outputs()[2].name, "cvr");
  EXPECT_LT(CvrError(world, esmm, 2), 0.05);

  World plain = CellWorld("dnn { hidden: 16 } | name: 'cvr' label: 'y1'", 72, ClickAndConversion);
  EXPECT_GT(CvrError(plain, Fit(&plain, 400, 1), 0), 0.3);
}

// Task a is the parity of both ids, task b whether they are both in the upper half
// or both in the lower: two crosses that share nothing.
std::vector<float> Conflict(int a, int b, int /*i*/) {
  return {(a + b) % 2 == 0 ? 1.0f : 0.0f, (a >= kIds / 2) == (b >= kIds / 2) ? 1.0f : 0.0f};
}
double ConflictLoss(const std::string& model) {
  World world = CellWorld(model + " | name: 'a' label: 'y0' | name: 'b' label: 'y1'", 4, Conflict);
  return Fit(&world, 600, 0.5).loss;
}

TEST(TaskLearning, MoreExpertsHoldTasksThatOneSharedBottomCannot) {
  EXPECT_GT(ConflictLoss("mmoe { experts: 1 expert { hidden: 3 } }"), 0.3);
  EXPECT_LT(ConflictLoss("mmoe { experts: 6 expert { hidden: 3 } tower { hidden: 8 } }"), 0.1);
  EXPECT_LT(ConflictLoss("ple { shared_experts: 2 task_experts: 3 expert { hidden: 3 } tower { "
                         "hidden: 8 } }"),
            0.1);
}

// User a likes items b of its own kind.
bool Match(int a, int b) { return a % 3 == b % 3; }
std::vector<float> MatchLabel(int a, int b, int /*i*/) {
  return {Match(a, b) ? 1.0f : 0.0f, Match(a, b) ? 1.0f : 0.0f};
}
constexpr char kTowers[] =
    "dssm { user: 'a' item: 'b' tower { hidden: 16 hidden: 4 } temperature: 0.2 }";

TEST(TaskLearning, TwoTowersMatchUsersAndItems) {
  World world = CellWorld(std::string(kTowers) + " | name: 'm' label: 'y0'", 4, MatchLabel);
  EXPECT_LT(Fit(&world, 300, 0.3).loss, 0.1);
}

TEST(TaskLearning, SoftmaxOverTheBatchRanksItemsOfAUser) {
  World world = CellWorld(
      std::string(kTowers) + " | name: 'm' label: 'y0' loss { sampled_softmax { item: 'b' } }", 1,
      MatchLabel);
  const Fitted fitted = Fit(&world, 300, 1);
  const auto scores = RunScore(*fitted.network, world.batch, world.rows, fitted.params);
  for (int a = 0; a < kIds; ++a) {
    double least = 1, most = 0;
    for (int b = 0; b < kIds; ++b) {
      const double score = scores[a * kIds + b];
      (Match(a, b) ? least : most) = Match(a, b) ? std::min(least, score) : std::max(most, score);
    }
    EXPECT_GT(least, most) << "user " << a;
  }
}

// One user; item j comes as a positive with a chance of 2^-(j + 1), in batches of 4 rows. What is
// learnt of item 0 beyond item 4.
double LearntOfTheFrequent(const std::string& softmax) {
  World world = CellWorld(
      "dssm { user: 'a' item: 'b' match: DOT tower { hidden: 4 } temperature: 1 } | name: 'm' "
      "label: 'y0' loss { sampled_softmax { item: 'b' " +
          softmax + " } }",
      1, [](int, int, int) -> std::vector<float> {
        return {1, 1};
      });
  World small = world;
  small.batch = SubBatch(world.batch, 0, 4);
  auto network = MakeNetwork(world.spec);
  std::vector<Real> params(network->param_floats());
  network->InitParams(params);
  for (int s = 0; s < 6000; ++s) {
    for (int row = 0; row < 4; ++row) {
      const double u = RandomUniform(3, 4 * s + row);
      small.batch.tables[1].slots[0].index[row] =
          std::min(kIds - 1, static_cast<int>(-std::log2(1 - u)));
    }
    LinkOccurrences(&small.batch);
    auto step = RunTrain(*network, small, params, s);
    const double lr = 0.1 / (1 + s / 1000.0);
    for (const ParamSpec& spec : network->params()) {
      for (int64_t i = spec.offset; i < spec.offset + spec.size(); ++i) {
        params[i] += static_cast<Real>((spec.statistic ? 1 : -lr) * step->param_grads[i]);
      }
    }
    for (size_t i = 0; i < small.rows[1].size(); ++i) {
      small.rows[1][i] -= static_cast<Real>(lr * step->row_grads[1][i]);
    }
  }
  const auto scores = RunScore(*network, world.batch, small.rows, params);
  auto logit = [&](int b) { return std::log(scores[b] / (1 - double{scores[b]})); };
  return logit(0) - logit(4);
}

// A frequent item is as often held against others as it is wanted, so that without a correction
// its score says nothing of how frequent it is.
TEST(TaskLearning, StreamingLogQGivesFrequentItemsTheirDue) {
  const double due = std::log(16.0);
  EXPECT_LT(LearntOfTheFrequent(""), 0.5 * due);
  EXPECT_NEAR(LearntOfTheFrequent("streaming { rate: 0.01 }"), due, 0.2 * due);
  EXPECT_NEAR(LearntOfTheFrequent("streaming { rate: 0.01 } negatives: 3"), due, 0.3 * due);
}

TEST(TaskLearning, PairwiseLossOrdersRowsOfARequestWhateverTheirLevel) {
  // A request is one a; its rows' labels follow b, and are all high for odd a.
  World world = CellWorld("dnn { hidden: 16 } | name: 'm' label: 'y0' loss { pairwise {} }", 1,
                          [](int a, int b, int) -> std::vector<float> {
                            const float level = a % 2 == 0 ? 0.0f : 0.5f;
                            return {level + static_cast<float>(b) / 16, 0};
                          });
  for (uint32_t row = 0; row < world.batch.rows; ++row) world.batch.groups.push_back(row / kIds);
  const Fitted fitted = Fit(&world, 100, 0.2);
  const auto scores = RunScore(*fitted.network, world.batch, world.rows, fitted.params);
  for (uint32_t row = 0; row + 1 < world.batch.rows; ++row) {
    if (row % kIds == kIds - 1) continue;  // The last of its request.
    EXPECT_LT(scores[row], scores[row + 1]) << row;
  }
}

}  // namespace
}  // namespace starling
