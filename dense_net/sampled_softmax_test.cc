// The items that a softmax over the batch holds a row's own against, and what they count for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "dense_net/item_frequency.h"
#include "dense_net/item_sampler.h"
#include "dense_net/test_world.h"

namespace starling {
namespace {

using Softmax = LossOptions::SampledSoftmax;
using testing::Each;
using testing::ElementsAre;

// Steps of a frequency of its own, as the trainer applies them.
class Stream {
 public:
  Stream(double rate, int buckets) {
    frequency_ = AddItemFrequency(&graph_, "items", rate, buckets);
    params_.resize(graph_.graph().param_floats);
  }
  // The chances of one step's items.
  std::vector<double> Step(const std::vector<uint64_t>& ids) {
    std::vector<Real> additions(params_.size());
    BeginItems(frequency_, additions.data());
    std::vector<double> chances;
    for (uint64_t id : ids) {
      chances.push_back(std::exp(SeeItem(frequency_, id, params_.data(), additions.data())));
    }
    for (size_t i = 0; i < params_.size(); ++i) params_[i] += additions[i];
    return chances;
  }

 private:
  GraphBuilder graph_;
  ItemFrequency frequency_;
  std::vector<Real> params_;
};

TEST(ItemFrequency, GapsByHand) {
  Stream stream(0.25, 10);
  EXPECT_THAT(stream.Step({1}), ElementsAre(1));  // Step 1.
  stream.Step({});
  stream.Step({});
  stream.Step({});
  // Step 5: a gap of 4 beside the first, of 1; another item's first is the 5 steps so far.
  EXPECT_THAT(stream.Step({1, 2}),
              ElementsAre(testing::DoubleNear(1 / 1.75, 1e-6), testing::DoubleNear(1.0 / 5, 1e-6)));
  // Step 6: ids of one bucket are one, and count once.
  EXPECT_THAT(stream.Step({1, 11}), Each(testing::DoubleNear(1 / (0.75 * 1.75 + 0.25), 1e-6)));
}

TEST(ItemFrequency, FindsHowOftenAnItemComes) {
  Stream stream(0.02, 64);
  std::vector<double> last(3);
  for (int step = 0; step < 4000; ++step) {
    std::vector<uint64_t> ids;
    for (uint64_t id = 0; id < 3; ++id) {
      if (RandomUniform(id, step) < std::pow(4.0, -double(id))) ids.push_back(id);
    }
    const std::vector<double> chances = stream.Step(ids);
    for (size_t i = 0; i < ids.size(); ++i) last[ids[i]] = chances[i];
  }
  for (int id = 0; id < 3; ++id) {
    EXPECT_NEAR(last[id] * std::pow(4.0, id), 1, 0.3) << id;
  }
}

TEST(ItemSampler, ChancesByHand) {
  const double frequencies[] = {1, 5, 2};
  std::vector<double> chances;
  DrawChances(Softmax::UNIFORM, frequencies, &chances);
  EXPECT_THAT(chances, Each(testing::DoubleNear(1.0 / 3, 1e-12)));
  DrawChances(Softmax::FREQUENCY, frequencies, &chances);
  EXPECT_THAT(chances, ElementsAre(0.125, 0.625, 0.25));
  DrawChances(Softmax::LOG_UNIFORM, frequencies, &chances);  // Ranks 2, 0, 1 of 3.
  for (int item = 0; item < 3; ++item) {
    const int rank = item == 0 ? 2 : item - 1;
    EXPECT_NEAR(chances[item], std::log((rank + 2.0) / (rank + 1)) / std::log(4.0), 1e-12);
  }
}

TEST(ItemSampler, DrawsAsOftenAsTheChancesSay) {
  const std::vector<double> chances = {0.5, 0, 0.125, 0.375};
  std::vector<uint32_t> drawn, again, other;
  DrawItems(chances, 80000, 7, &drawn);
  DrawItems(chances, 80000, 7, &again);
  DrawItems(chances, 80000, 8, &other);
  EXPECT_EQ(drawn, again);
  EXPECT_NE(drawn, other);
  EXPECT_EQ(std::accumulate(drawn.begin(), drawn.end(), 0u), 80000u);
  for (size_t i = 0; i < chances.size(); ++i) EXPECT_NEAR(drawn[i], 80000 * chances[i], 600) << i;
}

constexpr int kUsers = 3, kItems = 5, kDim = 2;

// A row for every user and item, and one more of item 0 for each user.
World TowerWorld(const std::string& softmax) {
  World world;
  ParseSpec(
      absl::StrCat("dssm { user: 'u' item: 'i' match: DOT tower { hidden: 3 } temperature: 1 } "
                   "| name: 'm' label: 'y0' loss { sampled_softmax { item: 'i' ",
                   softmax, " } }"),
      &world.spec);
  world.batch.rows = kUsers * (kItems + 1);
  for (int t = 0; t < 2; ++t) {
    world.spec.add_table_width(kDim);
    SlotSpec* spec = world.spec.add_slots();
    spec->set_name(t == 0 ? "u" : "i");
    spec->set_table(t);
    spec->set_slot(0);
    spec->set_embedding_offset(0);
    spec->set_embedding_dim(kDim);
    TableIds& table = world.batch.tables.emplace_back();
    table.slots.emplace_back().offsets = {0};
    for (int id = 0; id < (t == 0 ? kUsers : kItems); ++id) table.ids.push_back(id);
    auto& rows = world.rows.emplace_back();
    for (size_t i = 0; i < table.ids.size() * kDim; ++i) {
      rows.push_back(static_cast<Real>(RandomNormal(t + 1, i)));
    }
  }
  for (uint32_t row = 0; row < world.batch.rows; ++row) {
    for (int t = 0; t < 2; ++t) {
      Slot& slot = world.batch.tables[t].slots[0];
      slot.index.push_back(t == 0 ? row / (kItems + 1) : row % (kItems + 1) % kItems);
      slot.offsets.push_back(row + 1);
    }
    world.batch.labels.insert(world.batch.labels.end(), {1, 0});
  }
  LinkOccurrences(&world.batch);
  return world;
}
double ScoreOf(Real probability) { return std::log(probability / (1 - double{probability})); }

struct Towers {
  explicit Towers(const std::string& softmax) : world(TowerWorld(softmax)) {
    network = MakeNetwork(world.spec);
    params.resize(network->param_floats());
    network->InitParams(params);
    scores = RunScore(*network, world.batch, world.rows, params);
  }
  const Real* Param(const std::string& name) const {
    for (const ParamSpec& spec : network->params()) {
      if (spec.name == name) return &params[spec.offset];
    }
    return nullptr;
  }
  Real* Param(const std::string& name) {
    return const_cast<Real*>(std::as_const(*this).Param(name));
  }
  double Score(int user, int item) const { return ScoreOf(scores[user * (kItems + 1) + item]); }
  double Loss(uint64_t seed = 5) const { return RunTrain(*network, world, params, seed)->loss; }
  // The mean over rows, if item j counts weight[j] for all users, and as an own item own[j].
  double LossBy(const std::vector<double>& weight, const std::vector<double>& own) const {
    double sum = 0;
    for (uint32_t row = 0; row < world.batch.rows; ++row) {
      const int user = row / (kItems + 1), item = row % (kItems + 1) % kItems;
      const double numerator = own[item] * std::exp(Score(user, item));
      double all = numerator;
      for (int j = 0; j < kItems; ++j) {
        if (j != item) all += weight[j] * std::exp(Score(user, j));
      }
      sum += std::log(all / numerator);
    }
    return sum / world.batch.rows;
  }

  World world;
  std::unique_ptr<Network> network;
  std::vector<Real> params, scores;
};

TEST(SampledSoftmax, AnItemCountsOnceHoweverManyRowsHoldIt) {
  const Towers towers("");
  const std::vector<double> even(kItems, 1);
  EXPECT_NEAR(towers.Loss(), towers.LossBy(even, even), 1e-5);
}

TEST(SampledSoftmax, StreamingLogQByHand) {
  Towers towers("streaming { rate: 0.5 buckets: 100 }");
  // Step 11; item j was last seen in step j + 1, and its mean gap was 2.
  *towers.Param("loss.m.items.steps") = 10;
  std::vector<double> weight;
  for (int j = 0; j < kItems; ++j) {
    towers.Param("loss.m.items.last")[j] = static_cast<Real>(j + 1);
    towers.Param("loss.m.items.gap")[j] = 2;
    weight.push_back(0.5 * 2 + 0.5 * (10 - j));  // One over its chance.
  }
  EXPECT_NEAR(towers.Loss(), towers.LossBy(weight, weight), 1e-5);
  const auto step = RunTrain(*towers.network, towers.world, towers.params);
  for (int j = 0; j < kItems; ++j) {
    const int64_t last = towers.Param("loss.m.items.last") + j - towers.params.data();
    EXPECT_FLOAT_EQ(step->param_grads[last], 10 - j);
    const int64_t gap = towers.Param("loss.m.items.gap") + j - towers.params.data();
    EXPECT_FLOAT_EQ(step->param_grads[gap], weight[j] - 2);
  }
}

// One draw: the loss is that of the one candidate, whichever it is.
TEST(SampledSoftmax, OneNegativeByHand) {
  const std::vector<double> even(kItems, 1);
  int seen[kItems] = {};
  const Towers towers("negatives: 1");
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const double loss = towers.Loss(seed);
    int matches = 0;
    for (int j = 0; j < kItems; ++j) {
      std::vector<double> weight(kItems);
      weight[j] = 1;
      if (std::fabs(loss - towers.LossBy(weight, even)) > 1e-5) continue;
      ++matches;
      ++seen[j];
    }
    EXPECT_EQ(matches, 1) << seed;
  }
  EXPECT_THAT(seen, Each(testing::Gt(0)));
}

// Whatever the sampler, many draws corrected for it are a softmax over all items.
TEST(SampledSoftmax, ManyNegativesAreAllItems) {
  for (const char* sampler : {"UNIFORM", "LOG_UNIFORM", "FREQUENCY"}) {
    const Towers towers(absl::StrCat("negatives: 1000000 sampler: ", sampler));
    const std::vector<double> even(kItems, 1);
    EXPECT_NEAR(towers.Loss(), towers.LossBy(even, even), 0.01) << sampler;
  }
}

}  // namespace
}  // namespace starling
