#include "scheduler/worker.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/status.h"
#include "scheduler/model.h"
#include "scheduler/run_log.h"
#include "scheduler/schedule.h"
#include "scheduler/step_pipeline.h"
#include "scheduler/trainer.h"

namespace starling {

absl::Status CheckDistributable(const Plan& plan) {
  const TrainOptions& t = plan.job.train();
  if (t.has_early_stop()) {
    return absl::InvalidArgumentError(
        "train.early_stop needs one process: use `starling train`, or remove it");
  }
  if (t.schedule().has_plateau()) {
    return absl::InvalidArgumentError(
        "train.schedule.plateau needs one process: use `starling train`, or another rule");
  }
  for (const TableSpec& table : plan.tables.tables()) {
    if (!table.options().has_multi_hash()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "table ", table.options().name(),
        ": multi_hash needs one process, since servers own ids and not the rows that ids share: "
        "use `starling train`, or remove it"));
  }
  return absl::OkStatus();
}

absl::StatusOr<WorkerSummary> RunWorker(const Plan& plan, const SampleSource& train,
                                        const WorkerOptions& options,
                                        const std::atomic<bool>* stop) {
  RETURN_IF_ERROR(CheckDistributable(plan));
  const TrainOptions& t = plan.job.train();
  ModelSpec spec = SpecOf(plan);
  ASSIGN_OR_RETURN(std::unique_ptr<FeatureCompiler> compiler,
                   FeatureCompiler::Create(spec.features));
  ASSIGN_OR_RETURN(std::unique_ptr<Network> network,
                   Network::Create(spec.graph, NetworkOptionsOf(plan.job)));
  std::vector<float> dense(network->param_floats());
  network->InitParams(dense);
  ASSIGN_OR_RETURN(
      std::unique_ptr<ParameterClient> client,
      NewRemoteClient({.servers = options.servers}, StoreConfigOf(spec, *network), dense));
  int64_t total = train.rows() * t.epochs() / options.workers;
  ASSIGN_OR_RETURN(std::unique_ptr<RunLog> log,
                   RunLog::Create(JoinPath(t.dir(), absl::StrCat("worker-", options.worker)), total,
                                  network->outputs()[0]));
  ThreadPool pool(t.threads());
  // Seeds differ by worker, so that no two drop the same units in step.
  PipelineOptions pipe{t.staleness(), t.clip_norm(), t.seed() + 1000003ull * options.worker};
  StepPipeline pipeline(network.get(), client.get(), &pool, pipe);

  BatchReaderOptions reading;
  reading.job = HashBytes(plan.job.name(), 0);
  reading.batch_rows = plan.job.data().batch();
  reading.shuffle = plan.job.data().shuffle();
  reading.seed = t.seed();
  reading.sample = plan.job.data().sample();
  reading.bad_rows_max = plan.job.data().bad_rows_max();
  reading.shard = options.worker;
  reading.shards = options.workers;

  WorkerSummary summary;
  absl::Time start = absl::Now();
  for (int pass = 0; pass < t.epochs(); ++pass) {
    reading.quarantine = JoinPath(
        t.dir(), absl::StrCat("quarantine/worker-", options.worker, "-pass-", pass, ".parquet"));
    ASSIGN_OR_RETURN(
        std::unique_ptr<BatchReader> reader,
        BatchReader::Create(&train, compiler.get(), reading, {static_cast<uint32_t>(pass), 0, 0}));
    absl::Status log_status;
    RETURN_IF_ERROR(pipeline.Run(
        reader.get(), summary.steps,
        // The job's steps are shared out: this worker's n-th is about the job's n * workers-th.
        [&](int64_t step) { return LearningRateScale(t.schedule(), step * options.workers, 1); },
        [&](const StepReport& r) {
          ++summary.steps;
          summary.samples += r.batch->rows;
          log_status = log->Step(summary.steps, summary.samples, r.loss, 1, r.scores, *r.batch);
          return log_status.ok() && !stop->load();
        }));
    RETURN_IF_ERROR(log_status);
    if (stop->load())
      return absl::CancelledError(absl::StrCat("stopped after ", summary.steps, " steps"));
  }
  summary.seconds = absl::ToDoubleSeconds(absl::Now() - start);
  return summary;
}

}  // namespace starling
