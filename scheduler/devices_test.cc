// Training on several devices: the same model as on one, whatever the timing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/hash.h"
#include "base/random.h"
#include "dense_net/device.h"
#include "ps/store_testing.h"
#include "scheduler/model.h"
#include "scheduler/step_pipeline.h"

namespace starling {
namespace {

constexpr int kIds = 60, kDim = 4, kRows = 40, kBatches = 30;

ModelSpec Spec() {
  ModelSpec spec;
  auto* model = spec.graph.mutable_model()->mutable_deepfm();
  model->add_hidden(16);
  model->add_hidden(5);
  model->set_batch_norm(true);
  model->set_dropout(0.1);
  TableSpec* table = spec.tables.add_tables();
  table->mutable_options()->set_name("t");
  table->mutable_options()->set_memory(64 << 20);
  table->set_seed(3);
  for (const auto& [name, dim] : {std::pair{"linear", 1}, {"embedding", kDim}}) {
    SegmentSpec* segment = table->add_segments();
    segment->set_name(name);
    segment->set_dim(dim);
    segment->set_init(0.1);
    segment->mutable_optimizer()->mutable_adagrad()->set_lr(0.05);
  }
  for (int s = 0; s < 2; ++s) {
    SlotSpec* slot = spec.graph.add_slots();
    slot->set_name(absl::StrCat("f", s));
    slot->set_table(0);
    slot->set_slot(s);
    slot->set_linear_offset(0);
    slot->set_embedding_offset(1);
    slot->set_embedding_dim(kDim);
  }
  spec.graph.add_table_width(1 + kDim);
  spec.graph.set_seed(3);
  spec.dense_optimizer.mutable_sgd()->set_lr(0.05);
  return spec;
}

// Rows of two ids each; the label follows from them. The last batch is short.
Batch MakeBatch(uint32_t number) {
  Batch batch;
  batch.name.batch = number;
  batch.rows = batch.requests = number + 1 == kBatches ? 3 : kRows;
  std::map<uint64_t, std::vector<Occurrence>> by_id;
  for (uint32_t s = 0; s < 2; ++s) {
    for (uint32_t r = 0; r < batch.rows; ++r) {
      by_id[RandomBelow(Mix64(number), s * kRows + r, kIds)].push_back({s, r, 1.f});
    }
  }
  TableIds& table = batch.tables.emplace_back();
  table.slots.resize(2);
  for (Slot& slot : table.slots) {
    for (uint32_t r = 0; r <= batch.rows; ++r) slot.offsets.push_back(r);
    slot.index.resize(batch.rows);
  }
  table.occurrences.Start(table.slots.size());
  table.occurrence_offsets = {0};
  batch.labels.resize(batch.rows);
  for (const auto& [id, occurrences] : by_id) {
    for (const Occurrence& o : occurrences) {
      table.slots[o.slot].index[o.entry] = static_cast<uint32_t>(table.ids.size());
      if (id % 3 == 0) batch.labels[o.entry] = 1;
      table.occurrences.Add(o);
    }
    table.ids.push_back(id);
    table.counts.push_back(static_cast<uint32_t>(occurrences.size()));
    table.event_times.push_back(0);
    table.occurrence_offsets.push_back(static_cast<uint32_t>(table.occurrences.size()));
  }
  return batch;
}

class MadeReader : public BatchReader {
 public:
  absl::Status Next(Batch* batch) override {
    if (next_ == kBatches) return absl::OutOfRangeError("end");
    *batch = MakeBatch(next_++);
    return absl::OkStatus();
  }
  ReaderPosition position() const override { return {0, 0, next_}; }
  int64_t bad_rows() const override { return 0; }
  std::string Place(const BatchName&) const override { return "here"; }

 private:
  uint32_t next_ = 0;
};

struct Trained {
  std::vector<float> dense, rows, scores;
  double loss = 0;  // Of the last step.
};

Trained Train(int devices, int staleness, int threads) {
  const ModelSpec spec = Spec();
  auto network = *Network::Create(spec.graph, {.tile = 8});
  ThreadPool pool(threads);
  auto store =
      *ParameterStore::Create(StoreConfigOf(spec, *network), 0, 1, TestPath("scratch"), &pool);
  Trained trained;
  trained.dense.resize(network->param_floats());
  network->InitParams(trained.dense);
  EXPECT_TRUE(store->SetDense(trained.dense).ok());
  auto client = NewLocalClient(store.get());
  PipelineOptions options{.staleness = staleness, .clip_norm = 1, .seed = 5};
  for (int d = 0; d < devices; ++d) options.devices.push_back(*OpenDevice(absl::StrCat("cpu:", d)));
  StepPipeline pipeline(network.get(), client.get(), &pool, options);
  MadeReader reader;
  const absl::Status status = pipeline.Run(
      &reader, 0, [](int64_t) { return 1.0; },
      [&](const StepReport& report) {
        trained.loss = report.loss;
        trained.scores.insert(trained.scores.end(), report.scores.begin(), report.scores.end());
        return true;
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(store->PullDense(trained.dense).ok());
  std::vector<uint64_t> ids;
  for (uint64_t id = 0; id < kIds; ++id) ids.push_back(id);
  const std::vector<uint32_t> counts(kIds, 1);
  const std::vector<int64_t> times(kIds, 0);
  const std::vector<TableKeys> keys = {{ids, counts, times}};
  trained.rows.resize(size_t{kIds} * (1 + kDim));
  const std::vector<std::span<float>> rows = {trained.rows};
  EXPECT_TRUE(store->PullRows(PullMode::kReadOnly, keys, rows).ok());
  return trained;
}

// Sums are rounded in another order, and steps build on each other.
void ExpectClose(const std::vector<float>& got, const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], 2e-5 * (1 + std::fabs(want[i]))) << i;
  }
}

TEST(Devices, TrainTheModelThatOneDeviceTrainsWithTheJointBatch) {
  for (const int staleness : {0, 2}) {
    const Trained one = Train(0, staleness, 2);
    for (const int devices : {1, 2, 3}) {
      SCOPED_TRACE(absl::StrCat(devices, " devices, staleness ", staleness));
      const Trained several = Train(devices, staleness, 2);
      ExpectClose(several.dense, one.dense);
      ExpectClose(several.rows, one.rows);
      ExpectClose(several.scores, one.scores);
      EXPECT_NEAR(several.loss, one.loss, 1e-4);
    }
  }
}

TEST(Devices, OneSeedIsOneBitPatternWhateverTheThreads) {
  for (const int staleness : {0, 2}) {
    const Trained want = Train(2, staleness, 1);
    for (const int threads : {2, 5}) {
      const Trained got = Train(2, staleness, threads);
      EXPECT_EQ(got.dense, want.dense);
      EXPECT_EQ(got.rows, want.rows);
      EXPECT_EQ(got.scores, want.scores);
    }
  }
}

}  // namespace
}  // namespace starling
