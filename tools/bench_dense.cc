// bench dense: forward + backward of a batch by Network::Train, beside the bare
// products of the same layers.
#include "tools/bench_dense.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/random.h"
#include "base/status.h"
#include "dense_net/forward.h"
#include "tools/bench.h"

namespace starling {
namespace {

constexpr int kRows = 4096, kSlots = 26, kDim = 16, kRaws = 13, kIdsOfSlot = 1000;
constexpr int kWidth = kSlots * kDim + kRaws;

struct DenseCase {
  const char* name;
  ModelOptions model;
  std::vector<DenseLayer> layers;  // All but the last, of width 1.
};

template <typename Options>
void SetHidden(const std::vector<int>& widths, Options* options) {
  for (int width : widths) options->add_hidden(width);
}

std::vector<DenseCase> Cases() {
  const std::vector<DenseLayer> deep = {{kWidth, 400}, {400, 400}, {400, 400}};
  DenseCase mlp{"MLP 429-400-400-400-1", {}, deep};
  SetHidden({400, 400, 400}, mlp.model.mutable_dnn());
  DenseCase dcn{"DCN-v2 3 cross of 429 + 400x3", {}, deep};
  for (int i = 0; i < 3; ++i) dcn.layers.push_back({kWidth, kWidth});
  SetHidden({400, 400, 400}, dcn.model.mutable_dcnv2());
  DenseCase dlrm{
      "DLRM 512-256-16 and 512-256-1", {}, {{kRaws, 512, false}, {512, 256}, {256, kDim}}};
  dlrm.layers.push_back({kDim + (kSlots + 1) * kSlots / 2, 512});
  dlrm.layers.push_back({512, 256});
  SetHidden({512, 256}, dlrm.model.mutable_dlrm());
  for (int width : {512, 256}) dlrm.model.mutable_dlrm()->add_bottom(width);
  return {mlp, dcn, dlrm};
}

// One table; every row has one id in every slot.
GraphSpec SpecOf(const ModelOptions& model) {
  GraphSpec spec;
  *spec.mutable_model() = model;
  for (int s = 0; s < kSlots; ++s) {
    SlotSpec* slot = spec.add_slots();
    slot->set_name(absl::StrCat("C", s));
    slot->set_table(0);
    slot->set_slot(s);
    slot->set_embedding_offset(0);
    slot->set_embedding_dim(kDim);
  }
  for (int f = 0; f < kRaws; ++f) spec.add_raws(absl::StrCat("I", f));
  spec.add_table_width(kDim);
  spec.set_seed(1);
  return spec;
}

Batch DrawBatch() {
  Batch batch;
  batch.rows = kRows;
  for (int r = 0; r < kRows; ++r) batch.labels.push_back(RandomUniform(1, r) < 0.25 ? 1 : 0);
  for (int i = 0; i < kRows * kRaws; ++i) {
    batch.dense.push_back(static_cast<float>(RandomUniform(2, i)));
  }
  TableIds table;
  std::vector<std::vector<Occurrence>> by_id(kSlots * kIdsOfSlot);
  for (uint32_t s = 0; s < kSlots; ++s) {
    Slot slot;
    slot.offsets.push_back(0);
    for (uint32_t r = 0; r < kRows; ++r) {
      const auto id = static_cast<uint32_t>(kIdsOfSlot * RandomUniform(3 + s, r));
      slot.index.push_back(s * kIdsOfSlot + id);
      slot.offsets.push_back(r + 1);
      by_id[slot.index.back()].push_back({s, r, 1});
    }
    table.slots.push_back(std::move(slot));
  }
  table.occurrences.Start(table.slots.size());
  table.occurrence_offsets.push_back(0);
  for (size_t u = 0; u < by_id.size(); ++u) {
    table.ids.push_back(u);
    for (const Occurrence& o : by_id[u]) table.occurrences.Add(o);
    table.occurrence_offsets.push_back(static_cast<uint32_t>(table.occurrences.size()));
  }
  batch.tables.push_back(std::move(table));
  return batch;
}

// A network, a batch and the memory for its results.
class TrainStep {
 public:
  static absl::StatusOr<std::unique_ptr<TrainStep>> Create(const ModelOptions& model,
                                                           ThreadPool* pool) {
    std::unique_ptr<TrainStep> step(new TrainStep);
    ASSIGN_OR_RETURN(step->network_, Network::Create(SpecOf(model), {.sharing = Sharing::kNever}));
    step->pool_ = pool;
    step->workspace_ = step->network_->NewWorkspace();
    step->params_.resize(step->network_->param_floats());
    step->network_->InitParams(step->params_);
    step->param_grads_.resize(step->params_.size());
    for (int64_t i = 0; i < std::ssize(step->batch_.tables[0].ids) * kDim; ++i) {
      step->rows_.push_back(static_cast<float>(RandomNormal(9, i)));
    }
    step->row_grads_.resize(step->rows_.size());
    step->scores_.resize(kRows);
    return step;
  }
  absl::Status Run() {
    const std::span<const float> rows = rows_;
    const std::span<float> row_grads = row_grads_;
    return network_
        ->Train(batch_, {&rows, 1}, params_, 1, pool_, workspace_.get(), scores_, {&row_grads, 1},
                param_grads_)
        .status();
  }

 private:
  std::unique_ptr<Network> network_;
  ThreadPool* pool_ = nullptr;
  std::unique_ptr<Workspace> workspace_;
  const Batch batch_ = DrawBatch();
  std::vector<float> params_, param_grads_, rows_, row_grads_, scores_;
};

absl::Status RunCase(const DenseCase& c, int alternations, int steps, ThreadPool* pool) {
  double flops = 0;
  for (const DenseLayer& layer : c.layers) flops += kRows * layer.flops();
  BareStep bare(c.layers, kRows, pool);
  ASSIGN_OR_RETURN(std::unique_ptr<TrainStep> step, TrainStep::Create(c.model, pool));
  RETURN_IF_ERROR(step->Run());  // Memory is made here.
  BenchResult result{
      "dense", absl::StrCat(c.name, ", batch ", kRows), "FLOP/s in products", bare.name(), {}, {},
      1};
  auto rate = [&](absl::Time since) {
    return flops * steps / absl::ToDoubleSeconds(absl::Now() - since);
  };
  for (int i = 0; i < alternations; ++i) {
    absl::Time start = absl::Now();
    for (int s = 0; s < steps; ++s) bare.Run();
    result.reference_values.push_back(rate(start));
    start = absl::Now();
    for (int s = 0; s < steps; ++s) RETURN_IF_ERROR(step->Run());
    result.values.push_back(rate(start));
  }
  Report(result);
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchDense(bool quick) {
  ThreadPool pool(0);
  for (const DenseCase& c : Cases()) {
    RETURN_IF_ERROR(RunCase(c, quick ? 2 : 15, quick ? 1 : 5, &pool));
  }
  return absl::OkStatus();
}

}  // namespace starling
