#include "scheduler/worker.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/status.h"
#include "scheduler/model.h"
#include "scheduler/run_log.h"
#include "scheduler/run_record.h"
#include "scheduler/schedule.h"
#include "scheduler/step_pipeline.h"
#include "scheduler/trainer.h"
#include "scheduler/worker_barrier.h"

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

namespace {

// One worker from where it begins to the end of the last pass.
struct WorkerRun {
  const Plan& plan;
  const SampleSource& train;
  const WorkerOptions& options;
  const FeatureCompiler& compiler;
  BatchReaderOptions reading;
  StepPipeline* pipeline;
  BarrierClient* barrier;
  RunLog* log;
  const std::atomic<bool>* stop;
  WorkerState state = barrier->from();
  WorkerSummary summary = {};
  absl::Status failed = absl::OkStatus();

  absl::Status Run() {
    state.mutable_position()->set_source(train.fingerprint());
    while (static_cast<int>(state.position().pass()) < plan.job.train().epochs()) {
      bool pass_ended = false;
      RETURN_IF_ERROR(ReadOn(&pass_ended));
      RETURN_IF_ERROR(failed);
      if (stop->load())
        return absl::CancelledError(absl::StrCat("stopped after ", summary.steps, " steps"));
      if (pass_ended) {
        SetPosition({state.position().pass() + 1, 0, 0});
      } else {
        RETURN_IF_ERROR(barrier->Rest());
      }
    }
    return absl::OkStatus();
  }

 private:
  void SetPosition(const ReaderPosition& next) {
    state.mutable_position()->set_pass(next.pass);
    state.mutable_position()->set_ordinal(next.ordinal);
    state.mutable_position()->set_batch(next.batch);
    barrier->Report(state);
  }

  bool OnStep(const StepReport& r) {
    state.set_steps(r.step + 1);
    state.set_samples(state.samples() + r.batch->rows);
    state.set_event_time(std::max(state.event_time(), r.batch->event_time_max));
    SetPosition(r.next);
    ++summary.steps;
    summary.samples += r.batch->rows;
    failed = log->Step(state.steps(), state.samples(), r.loss, 1, r.scores, *r.batch);
    return failed.ok() && !stop->load() && !barrier->hold();
  }

  // From `position` until the pass ends, or the reader must end before a cut.
  absl::Status ReadOn(bool* pass_ended) {
    reading.quarantine = JoinPath(plan.job.train().dir(),
                                  absl::StrFormat("quarantine/worker-%d-from-step-%012d.parquet",
                                                  options.worker, state.steps()));
    const Position& at = state.position();
    ASSIGN_OR_RETURN(
        std::unique_ptr<BatchReader> reader,
        BatchReader::Create(&train, &compiler, reading, {at.pass(), at.ordinal(), at.batch()}));
    bool held = false;
    absl::Status status = pipeline->Run(
        reader.get(), state.steps(),
        // The job's steps are shared out: this worker's n-th is about the job's n * workers-th.
        [&](int64_t step) {
          return LearningRateScale(plan.job.train().schedule(), step * options.workers, 1);
        },
        [&](const StepReport& report) {
          held |= !OnStep(report);
          return !held;
        },
        [&] {
          // Bad rows stand in a file that is complete only when the reader ends.
          if (!failed.ok() || stop->load() || reader->bad_rows() > 0) return false;
          failed = barrier->Rest();
          held = !failed.ok();
          return failed.ok();
        });
    *pass_ended = !held;
    return status;
  }
};

}  // namespace

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
  ASSIGN_OR_RETURN(PipelineOptions pipe, PipelineOptionsOf(t));
  pipe.seed += 1000003ull * options.worker;
  StepPipeline pipeline(network.get(), client.get(), &pool, pipe);

  BatchReaderOptions reading;
  reading.job = HashBytes(plan.job.name(), train.fingerprint());
  reading.batch_rows = plan.job.data().batch();
  reading.threads = ReadThreads(t);
  reading.pool = &pool;
  reading.shuffle = plan.job.data().shuffle();
  reading.seed = t.seed();
  reading.sample = plan.job.data().sample();
  reading.bad_rows_max = plan.job.data().bad_rows_max();
  reading.shard = options.worker;
  reading.shards = options.workers;

  ASSIGN_OR_RETURN(std::unique_ptr<BarrierClient> barrier,
                   BarrierClient::Join(options.launcher, options.worker));
  WorkerRun run{plan,      train,         options,   *compiler, reading,
                &pipeline, barrier.get(), log.get(), stop};
  absl::Time start = absl::Now();
  RETURN_IF_ERROR(run.Run());
  RETURN_IF_ERROR(barrier->Done());
  run.summary.seconds = absl::ToDoubleSeconds(absl::Now() - start);
  return run.summary;
}

}  // namespace starling
