// Signals in sequences: DIN sees whether the target was among the events, which
// a pooled sequence hides; DIEN sees their order, which DIN cannot.
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "dense_net/test_world.h"

namespace starling {
namespace {

constexpr int kIds = 400, kDim = 8, kLength = 10, kBatch = 512;

enum class Signal { kSeen, kOrder };

// One table; slot 0 is the target, slot 1 what was seen: positions, or pooled.
World MakeSpec(const std::string& model) {
  World world;
  *world.spec.mutable_model() = ParseModel(model);
  world.spec.set_seed(1);
  world.spec.add_table_width(kDim);
  for (int s = 0; s < 2; ++s) {
    SlotSpec* spec = world.spec.add_slots();
    spec->set_name(s == 0 ? "item" : "seen");
    spec->set_table(0);
    spec->set_slot(s);
    spec->set_embedding_offset(0);
    spec->set_embedding_dim(kDim);
    if (s == 1 && NeedsOf(world.spec.model()).sequences) spec->set_sequence(0);
  }
  std::vector<Real>& rows = world.rows.emplace_back();
  for (int i = 0; i < kIds * kDim; ++i) {
    rows.push_back(static_cast<Real>(0.3 * RandomNormal(7, i)));
  }
  return world;
}

// kSeen: the label is 1 iff the target is among the events. kOrder: it always
// is, once; the label is 1 iff in the later half.
void FillBatch(Signal signal, uint64_t seed, World* world) {
  Batch& batch = world->batch;
  batch = {};
  batch.rows = batch.requests = kBatch;
  TableIds& table = batch.tables.emplace_back();
  for (uint32_t u = 0; u < kIds; ++u) table.ids.push_back(u);
  table.slots.resize(2);
  Slot &item = table.slots[0], &seen = table.slots[1];
  if (world->spec.slots(1).has_sequence()) seen.axis = Axis::kPosition;
  const uint64_t key = Mix64(seed);
  for (uint32_t r = 0; r < kBatch; ++r) {
    const auto target = static_cast<uint32_t>(RandomBelow(key, r, kIds));
    const auto label = static_cast<uint32_t>(RandomBelow(key + 1, r, 2));
    auto place = static_cast<uint32_t>(RandomBelow(key + 2, r, kLength));
    if (signal == Signal::kOrder) place = place / 2 + label * kLength / 2;
    item.offsets.push_back(r);
    item.index.push_back(target);
    seen.offsets.push_back(r * kLength);
    for (uint32_t i = 0; i < kLength; ++i) {
      const auto other = static_cast<uint32_t>(RandomBelow(key + 3, r * kLength + i, kIds - 1));
      const bool here = i == place && (label == 1 || signal == Signal::kOrder);
      seen.index.push_back(here ? target : (target + 1 + other) % kIds);
      if (!world->spec.slots(1).has_sequence()) seen.weights.push_back(1.0f / kLength);
    }
    batch.labels.push_back(static_cast<float>(label));
  }
  item.offsets.push_back(kBatch);
  seen.offsets.push_back(kBatch * kLength);
  LinkOccurrences(&batch);
}

double LogLossOf(const std::vector<Real>& scores, const std::vector<float>& labels) {
  double loss = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    const double p = labels[i] > 0 ? scores[i] : 1 - scores[i];
    loss -= std::log(std::max(p, 1e-12)) / static_cast<double>(scores.size());
  }
  return loss;
}

// Adam, so that all models get their best from one learning rate.
struct Adam {
  std::vector<double> m, v;
  void Step(int step, double lr, const std::vector<Real>& grads, std::vector<Real>* x) {
    m.resize(x->size());
    v.resize(x->size());
    for (size_t i = 0; i < x->size(); ++i) {
      m[i] += 0.1 * (grads[i] - m[i]);
      v[i] += 0.001 * (double{grads[i]} * grads[i] - v[i]);
      const double mean = m[i] / (1 - std::pow(0.9, step)),
                   square = v[i] / (1 - std::pow(0.999, step));
      (*x)[i] -= static_cast<Real>(lr * mean / (std::sqrt(square) + 1e-8));
    }
  }
};

// The mean loss on the last of `steps` fresh batches.
double LossAfterTraining(const std::string& model, Signal signal, int steps) {
  World world = MakeSpec(model);
  auto network = MakeNetwork(world.spec, {.tile = 128, .lanes = 2});
  std::vector<Real> params(network->param_floats());
  network->InitParams(params);
  ThreadPool pool(2);
  auto workspace = network->NewWorkspace();
  Adam of_params, of_rows;
  double loss = 0;
  const int last = steps / 10;
  for (int s = 1; s <= steps; ++s) {
    FillBatch(signal, s, &world);
    auto step = RunTrain(*network, world, params, s, &pool, workspace.get());
    if (!step.ok()) {
      ADD_FAILURE() << step.status();
      return 0;
    }
    // Statistics move by their "gradient".
    for (const ParamSpec& spec : network->params()) {
      for (int64_t i = 0; spec.statistic && i < spec.size(); ++i) {
        params[spec.offset + i] += step->param_grads[spec.offset + i];
        step->param_grads[spec.offset + i] = 0;
      }
    }
    of_params.Step(s, 0.01, step->param_grads, &params);
    of_rows.Step(s, 0.02, step->row_grads[0], &world.rows[0]);
    if (s > steps - last) loss += LogLossOf(step->scores, world.batch.labels) / last;
  }
  return loss;
}

TEST(SequenceLearning, DinFindsTheTargetAmongTheEventsAndAPooledDnnDoesNot) {
  EXPECT_LT(LossAfterTraining("din { attention { sequence: 'seen' target: 'item' } "
                              "attention_hidden: 16 hidden: 16 }",
                              Signal::kSeen, 600),
            0.2);
  EXPECT_GT(LossAfterTraining("dnn { hidden: 64 hidden: 32 }", Signal::kSeen, 600), 0.55);
}

TEST(SequenceLearning, DienFindsTheOrderOfEventsAndDinDoesNot) {
  const std::string rest =
      " { attention { sequence: 'seen' target: 'item' } attention_hidden: 16 hidden: 16 }";
  EXPECT_LT(LossAfterTraining("dien" + rest, Signal::kOrder, 600), 0.15);
  EXPECT_GT(LossAfterTraining("din" + rest, Signal::kOrder, 600), 0.68);
}

}  // namespace
}  // namespace starling
