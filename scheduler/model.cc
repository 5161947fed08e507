#include "scheduler/model.h"

#include <utility>
#include <vector>

#include "base/status.h"
#include "google/protobuf/util/message_differencer.h"
#include "scheduler/step_pipeline.h"

namespace starling {
namespace {

// ok, or FailedPrecondition that names the first field in which two differ.
absl::Status SameMessage(const google::protobuf::Message& ours,
                         const google::protobuf::Message& theirs, const Checkpoint& checkpoint,
                         const char* part, const char* allow) {
  google::protobuf::util::MessageDifferencer differencer;
  std::string report;
  differencer.ReportDifferencesToString(&report);
  if (differencer.Compare(theirs, ours)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(checkpoint.dir, ": its ", part,
                   " differ from this job's: ", report.substr(0, report.find('\n')),
                   "; use the config it was trained with, another train.dir, or --allow ", allow));
}

// What may change between runs over the same rows.
TableSet WithoutTuning(TableSet tables) {
  for (TableSpec& t : *tables.mutable_tables()) {
    t.mutable_options()->clear_memory();
    t.mutable_options()->clear_tier();
    t.mutable_options()->clear_evict();
    t.mutable_options()->clear_dtype();  // Checkpoints hold fp32.
  }
  return tables;
}

}  // namespace

ModelSpec SpecOf(const Plan& plan) {
  ModelSpec spec{plan.features, plan.tables, plan.graph, plan.job.optimizer().dense()};
  if (spec.dense_optimizer.rule_case() == OptimizerOptions::RULE_NOT_SET)
    spec.dense_optimizer.mutable_adam();
  return spec;
}

ModelSpec SpecOf(const CheckpointInfo& info) {
  return {info.features(), info.tables(), info.graph(), info.dense_optimizer()};
}

StoreConfig StoreConfigOf(const ModelSpec& spec, const Network& network) {
  StoreConfig config;
  *config.mutable_tables() = spec.tables;
  *config.mutable_dense_optimizer() = spec.dense_optimizer;
  for (const ParamSpec& p : network.params()) {
    DenseParam* d = config.add_dense();
    d->set_name(p.name);
    d->set_size(p.size());
    d->set_statistic(p.statistic);
    d->set_decay(p.decay);
  }
  return config;
}

absl::StatusOr<std::unique_ptr<LocalModel>> LocalModel::Create(const ModelSpec& spec,
                                                               const NetworkOptions& network,
                                                               const std::string& scratch_dir,
                                                               ThreadPool* pool) {
  auto model = std::make_unique<LocalModel>();
  model->spec_ = spec;
  ASSIGN_OR_RETURN(model->compiler_, FeatureCompiler::Create(spec.features));
  ASSIGN_OR_RETURN(model->network_, Network::Create(spec.graph, network));
  ASSIGN_OR_RETURN(model->store_, ParameterStore::Create(StoreConfigOf(spec, *model->network_), 0,
                                                         1, scratch_dir, pool));
  model->client_ = NewLocalClient(model->store_.get());
  std::vector<float> dense(model->network_->param_floats());
  model->network_->InitParams(dense);
  RETURN_IF_ERROR(model->store_->SetDense(dense));
  return model;
}

absl::Status LocalModel::Load(const Checkpoint& checkpoint) {
  return store_->Load(checkpoint.chain);
}

absl::Status CheckFits(const Checkpoint& checkpoint, const ModelSpec& spec,
                       const std::set<std::string>& allow) {
  const CheckpointInfo& info = checkpoint.info;
  auto same = [&](const char* name, const google::protobuf::Message& ours,
                  const google::protobuf::Message& theirs, const char* part) {
    return allow.contains(name) ? absl::OkStatus()
                                : SameMessage(ours, theirs, checkpoint, part, name);
  };
  RETURN_IF_ERROR(same("features", spec.features, info.features(), "features"));
  RETURN_IF_ERROR(
      same("tables", WithoutTuning(spec.tables), WithoutTuning(info.tables()), "tables"));
  RETURN_IF_ERROR(same("model", spec.graph, info.graph(), "model settings"));
  return same("optimizer", spec.dense_optimizer, info.dense_optimizer(),
              "dense optimiser settings");
}

absl::Status CheckReading(const Checkpoint& checkpoint, const Reading& reading) {
  const CheckpointInfo& info = checkpoint.info;
  auto inside = [](const Position& at) { return at.ordinal() > 0 || at.batch() > 0; };
  bool inside_a_pass = inside(info.position());
  for (const WorkerState& worker : info.workers()) inside_a_pass |= inside(worker.position());
  // One of an earlier version says nothing about it.
  if (!inside_a_pass || !info.has_reading()) return absl::OkStatus();
  return SameMessage(reading, info.reading(), checkpoint, "batches", "data");
}

absl::Status ScoreAll(LocalModel* model, const SampleSource& source, const ScoreOptions& options,
                      ThreadPool* pool,
                      const std::function<void(const Batch&, std::span<const float>)>& fn) {
  BatchReaderOptions reading;
  reading.batch_rows = options.batch_rows;
  reading.pool = pool;
  reading.bad_rows_max = options.bad_rows_max;
  ASSIGN_OR_RETURN(std::unique_ptr<BatchReader> reader,
                   BatchReader::Create(&source, &model->compiler(), reading, {}));
  const Network& network = model->network();
  std::unique_ptr<Workspace> workspace = network.NewWorkspace();
  std::vector<float> dense(network.param_floats()), scores;
  RETURN_IF_ERROR(model->store().PullDense(dense));
  Batch batch;
  std::vector<std::vector<float>> rows;
  while (true) {
    if (options.stop != nullptr && (*options.stop)())
      return absl::CancelledError("stopped while scoring");
    if (absl::Status status = reader->Next(&batch); !status.ok()) {
      return absl::IsOutOfRange(status) ? absl::OkStatus() : status;
    }
    std::vector<TableKeys> keys = KeysOf(batch);
    rows.resize(keys.size());
    std::vector<std::span<float>> spans;
    for (size_t t = 0; t < keys.size(); ++t) {
      rows[t].resize(keys[t].ids.size() * network.spec().table_width(static_cast<int>(t)));
      spans.push_back(rows[t]);
    }
    RETURN_IF_ERROR(model->store().PullRows(PullMode::kReadOnly, keys, spans));
    scores.resize(batch.rows * network.outputs().size());
    std::vector<std::span<const float>> read(rows.begin(), rows.end());
    RETURN_IF_ERROR(network.Score(batch, read, dense, pool, workspace.get(), scores));
    fn(batch, scores);
  }
}

absl::StatusOr<std::vector<EvalMetrics>> Evaluate(LocalModel* model, const SampleSource& source,
                                                  const ScoreOptions& options, ThreadPool* pool) {
  ModelEvaluation evaluation(model->network().outputs());
  RETURN_IF_ERROR(ScoreAll(
      model, source, options, pool,
      [&](const Batch& batch, std::span<const float> scores) { evaluation.Add(scores, batch); }));
  std::vector<EvalMetrics> metrics = evaluation.Compute();
  if (metrics[0].samples > 0) return metrics;
  return absl::FailedPreconditionError(
      "no row was left to evaluate on: all are bad, or passed over by data.where");
}

}  // namespace starling
