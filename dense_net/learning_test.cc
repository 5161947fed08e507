// A planted cross of two ids: FM learns it, LR cannot.
#include <gtest/gtest.h>

#include "base/random.h"
#include "dense_net/test_world.h"

namespace starling {
namespace {

constexpr int kIds = 8, kDim = 4, kRows = 512, kSteps = 200;

// The label is 1 iff both ids are even or both odd: no id tells anything alone.
World CrossWorld(const std::string& model) {
  World world;
  *world.spec.mutable_model() = ParseModel(model);
  world.spec.set_seed(1);
  world.batch.rows = kRows;
  for (int t = 0; t < 2; ++t) {
    world.spec.add_table_width(1 + kDim);
    SlotSpec* spec = world.spec.add_slots();
    spec->set_table(t);
    spec->set_slot(0);
    spec->set_linear_offset(0);
    spec->set_embedding_offset(1);
    spec->set_embedding_dim(kDim);
    TableIds& table = world.batch.tables.emplace_back();
    Slot& slot = table.slots.emplace_back();
    for (uint32_t u = 0; u < kIds; ++u) table.ids.push_back(u);
    for (uint32_t i = 0; i <= kRows; ++i) slot.offsets.push_back(i);
    for (uint32_t i = 0; i < kRows; ++i) slot.index.push_back(t == 0 ? i % kIds : i / kIds % kIds);
    std::vector<float>& rows = world.rows.emplace_back();
    for (int i = 0; i < kIds * (1 + kDim); ++i) {
      rows.push_back(static_cast<float>(0.1 * RandomNormal(7 + t, i)));
    }
  }
  for (uint32_t i = 0; i < kRows; ++i) {
    world.batch.labels.push_back((i % kIds + i / kIds % kIds) % 2 == 0 ? 1 : 0);
  }
  LinkOccurrences(&world.batch);
  return world;
}

double LossAfterTraining(const std::string& model, double lr) {
  World world = CrossWorld(model);
  auto network = MakeNetwork(world.spec, {.tile = 128, .lanes = 2});
  std::vector<float> params(network->param_floats());
  network->InitParams(params);
  ThreadPool pool(2);
  auto workspace = network->NewWorkspace();
  double loss = 0;
  for (int s = 0; s < kSteps; ++s) {
    auto step = RunTrain(*network, world, params, s, &pool, workspace.get());
    if (!step.ok()) {
      ADD_FAILURE() << step.status();
      return 0;
    }
    loss = step->loss;
    for (size_t i = 0; i < params.size(); ++i) {
      params[i] -= static_cast<float>(lr * step->param_grads[i]);
    }
    for (size_t t = 0; t < world.rows.size(); ++t) {
      for (size_t i = 0; i < world.rows[t].size(); ++i) {
        world.rows[t][i] -= static_cast<float>(lr * step->row_grads[t][i]);
      }
    }
  }
  return loss;
}

TEST(Learning, FmLearnsACrossThatLrCannot) {
  EXPECT_GT(LossAfterTraining("lr {}", 2), 0.69);
  EXPECT_LT(LossAfterTraining("fm {}", 2), 0.05);
}

TEST(Learning, DeepModelsLearnTheCrossToo) {
  EXPECT_LT(LossAfterTraining("deepfm { hidden: 16 }", 1), 0.05);
  EXPECT_LT(LossAfterTraining("dnn { hidden: 32 hidden: 16 batch_norm: true }", 1), 0.05);
  EXPECT_LT(LossAfterTraining("dcnv2 { cross_layers: 2 hidden: 16 }", 1), 0.05);
}

}  // namespace
}  // namespace starling
