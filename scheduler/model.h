// LocalModel: a model in this process — compiler, network, store and client —
// made new from a plan, or from a checkpoint. `train`, `eval`, `export` and
// `online` work on one.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/thread_pool.h"
#include "dense_net/forward.h"
#include "ps/parameter_client.h"
#include "sample_io/batch_reader.h"
#include "sample_io/feature_compiler.h"
#include "sample_io/source.h"
#include "scheduler/checkpoint.h"
#include "scheduler/evaluation.h"
#include "scheduler/plan.h"

namespace starling {

// What a model is, resolved; the part of a checkpoint that never changes.
struct ModelSpec {
  FeatureSet features;
  TableSet tables;
  GraphSpec graph;
  OptimizerOptions dense_optimizer;
};
ModelSpec SpecOf(const Plan& plan);
ModelSpec SpecOf(const CheckpointInfo& info);

// What a store for this model holds.
StoreConfig StoreConfigOf(const ModelSpec& spec, const Network& network);

class LocalModel {
 public:
  // New: parameters as they start. `scratch_dir` is for tables that outgrow
  // their memory; it is removed in the end. Large batches of rows are shared
  // out over `pool` (may be null; must outlive the model).
  static absl::StatusOr<std::unique_ptr<LocalModel>> Create(const ModelSpec& spec,
                                                            const NetworkOptions& network,
                                                            const std::string& scratch_dir,
                                                            ThreadPool* pool);
  // Reads a checkpoint into this model, replacing nothing: it must be new.
  absl::Status Load(const Checkpoint& checkpoint);

  const ModelSpec& spec() const { return spec_; }
  const FeatureCompiler& compiler() const { return *compiler_; }
  const Network& network() const { return *network_; }
  ParameterStore& store() { return *store_; }
  ParameterClient& client() { return *client_; }

 private:
  ModelSpec spec_;
  std::unique_ptr<FeatureCompiler> compiler_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<ParameterStore> store_;
  std::unique_ptr<ParameterClient> client_;
};

// FailedPrecondition, naming what differs, if the checkpoint is of another
// model than `spec`. Compares `features`, `tables` (dims, optimisers), `model`
// and `optimizer` (the dense one), but for those in `allow`: there a difference
// passes here, and what then cannot hold the rows or parameters is refused by the store.
absl::Status CheckFits(const Checkpoint& checkpoint, const ModelSpec& spec,
                       const std::set<std::string>& allow = {});
// FailedPrecondition, naming what differs, if the checkpoint is in the middle of a pass and
// counts its batches otherwise than `reading`: there its position would mean other rows.
absl::Status CheckReading(const Checkpoint& checkpoint, const Reading& reading);

// Scores all rows of `source` in order and calls `fn` batch by batch, with the
// scores as (rows, outputs). Rows are
// read, never created. `bad_rows_max` as in BatchReaderOptions.
struct ScoreOptions {
  int batch_rows = 4096;
  double bad_rows_max = 0.001;
  const std::function<bool()>* stop = nullptr;  // Polled; true ends with Cancelled.
};
absl::Status ScoreAll(LocalModel* model, const SampleSource& source, const ScoreOptions& options,
                      ThreadPool* pool,
                      const std::function<void(const Batch&, std::span<const float> scores)>& fn);

// The metrics of each output.
absl::StatusOr<std::vector<EvalMetrics>> Evaluate(LocalModel* model, const SampleSource& source,
                                                  const ScoreOptions& options, ThreadPool* pool);

}  // namespace starling
