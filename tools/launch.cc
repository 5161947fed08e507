// starling launch: servers and workers on this machine, from start or a
// checkpoint to a checkpoint that `eval` and `export` read like any other. On
// the way it takes cuts of all of them at one instant.
#include <gflags/gflags.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "base/sync_point.h"
#include "ps/parameter_client.h"
#include "scheduler/checkpoint_keeper.h"
#include "scheduler/trainer.h"
#include "scheduler/worker.h"
#include "scheduler/worker_barrier.h"
#include "tools/cluster.h"
#include "tools/flags.h"
#include "tools/job.h"
#include "tools/verbs.h"

DEFINE_int32(server_count, 2, "parameter servers to start");
DEFINE_int32(worker_count, 2, "workers to start");
DEFINE_int32(restarts, 3,
             "times that dead processes may set the job back without a new checkpoint in between");
DECLARE_bool(resume);

namespace starling {
namespace {

// Where each worker begins, from a checkpoint of `launch` or of `train`.
absl::StatusOr<std::vector<WorkerState>> WorkersFrom(const Checkpoint& checkpoint) {
  const CheckpointInfo& info = checkpoint.info;
  const int workers = FLAGS_worker_count;
  if (info.workers_size() == workers)
    return std::vector<WorkerState>(info.workers().begin(), info.workers().end());
  if (info.workers_size() > 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        checkpoint.dir, ": was written by ", info.workers_size(),
        " workers in the middle of a pass; go on with --worker_count ", info.workers_size()));
  }
  const Position& at = info.position();
  if (workers > 1 && (at.ordinal() > 0 || at.batch() > 0)) {
    return absl::FailedPreconditionError(
        absl::StrCat(checkpoint.dir, ": was written by one process in the middle of a pass; go on ",
                     "with `starling train --resume` or --worker_count 1"));
  }
  std::vector<WorkerState> from(workers);
  for (WorkerState& worker : from) {
    *worker.mutable_position() = at;
    worker.set_steps(info.state().step() / workers);
    worker.set_event_time(info.state().event_time());
  }
  from[0].set_steps(info.state().step() - from[0].steps() * (workers - 1));
  from[0].set_samples(info.state().samples());
  return from;
}

// One life of servers and workers, from the last checkpoint to the end.
class Launch {
 public:
  Launch(const VerbCall& call, const LoadedJob& job, const std::optional<Checkpoint>& latest)
      : call_(call), job_(job), latest_(latest), cluster_(ScratchDir(job.plan.job)) {}

  absl::Status Run() {
    RETURN_IF_ERROR(cluster_.StartServers(FLAGS_server_count));
    ASSIGN_OR_RETURN(control_, PsControl::Connect(cluster_.addresses()));
    keeper_ = std::make_unique<CheckpointKeeper>(
        job_.plan.job.train().checkpoint(), CheckpointRoot(job_.plan.job), control_.get(),
        StopRequested(), [](absl::string_view line) { absl::FPrintF(stderr, "%s\n", line); });
    RETURN_IF_ERROR(TakeUp());
    ASSIGN_OR_RETURN(barrier_, WorkerBarrier::Start(from_));
    RETURN_IF_ERROR(cluster_.StartWorkers(call_, FLAGS_worker_count, barrier_->address()));
    RETURN_IF_ERROR(AwaitWorkers());
    ASSIGN_OR_RETURN(applied_, AppliedBatches());
    CheckpointInfo info = InfoNow();
    info.clear_workers();
    info.mutable_state()->set_finished(true);
    info.mutable_position()->set_pass(job_.plan.job.train().epochs());
    info.mutable_position()->set_source(job_.train->fingerprint());
    RETURN_IF_ERROR(keeper_->Save(info));
    STARLING_SYNC_POINT("launch:saved");
    RETURN_IF_ERROR(control_->Stop());
    cluster_.AwaitServers();
    return absl::OkStatus();
  }

  int64_t applied() const { return applied_; }
  bool saved() const { return keeper_ != nullptr && !keeper_->newest().empty(); }

 private:
  absl::Status TakeUp() {
    if (!latest_.has_value()) {
      from_.resize(FLAGS_worker_count);
      return absl::OkStatus();
    }
    ModelSpec spec = SpecOf(job_.plan);
    RETURN_IF_ERROR(CheckFits(*latest_, spec));
    ASSIGN_OR_RETURN(from_, WorkersFrom(*latest_));
    RETURN_IF_ERROR(CheckReading(*latest_, InfoOf(job_.plan, 1).reading()));
    for (const WorkerState& worker : from_) {
      if (worker.position().source() == job_.train->fingerprint()) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          latest_->dir, ": its position is in another set of files than data.train names now"));
    }
    ASSIGN_OR_RETURN(std::unique_ptr<Network> network,
                     Network::Create(spec.graph, NetworkOptionsOf(job_.plan.job)));
    RETURN_IF_ERROR(control_->Load(StoreConfigOf(spec, *network), latest_->chain));
    const int64_t step = latest_->info.state().step();
    keeper_->TakenUp(step);
    absl::FPrintF(stderr, "resumed from %s at step %d\n", latest_->dir, step);
    return absl::OkStatus();
  }

  // Of the states that workers have reported.
  CheckpointInfo InfoNow() const {
    CheckpointInfo info = InfoOf(job_.plan, FLAGS_server_count);
    TrainerState* total = info.mutable_state();
    for (const WorkerState& worker : barrier_->states()) {
      *info.add_workers() = worker;
      total->set_step(total->step() + worker.steps());
      total->set_samples(total->samples() + worker.samples());
      total->set_event_time(std::max(total->event_time(), worker.event_time()));
    }
    return info;
  }

  // Until all workers have come to their end; cuts on the way.
  absl::Status AwaitWorkers() {
    for (;;) {
      int running = 0;
      RETURN_IF_ERROR(cluster_.Check(&running));
      if (running == 0) return absl::OkStatus();
      const bool stop = StopRequested()->load();
      if (!barrier_->holding() && (stop || keeper_->Due(InfoNow().state().step()))) {
        STARLING_SYNC_POINT("launch:hold");
        barrier_->Hold();
      }
      if (barrier_->AtRest()) {
        STARLING_SYNC_POINT("launch:at_rest");
        const CheckpointInfo info = InfoNow();
        if (stop) {
          RETURN_IF_ERROR(keeper_->Save(info));
          return absl::CancelledError(absl::StrCat("stopped at step ", info.state().step(),
                                                   ", saved ", keeper_->newest(),
                                                   "; go on with --resume"));
        }
        RETURN_IF_ERROR(keeper_->Cut(info));
        STARLING_SYNC_POINT("launch:cut");
        barrier_->Release();
      }
      absl::SleepFor(absl::Milliseconds(barrier_->holding() ? 1 : 10));
    }
  }

  // All servers see every batch: their counts must agree.
  absl::StatusOr<int64_t> AppliedBatches() {
    ASSIGN_OR_RETURN(std::vector<PsControl::Stats> stats, control_->GetStats());
    for (const PsControl::Stats& s : stats) {
      if (s.batches_applied == stats[0].batches_applied) continue;
      return absl::InternalError(
          absl::StrCat("servers applied different numbers of batches: ", stats[0].batches_applied,
                       " and ", s.batches_applied));
    }
    return stats[0].batches_applied;
  }

  const VerbCall& call_;
  const LoadedJob& job_;
  const std::optional<Checkpoint>& latest_;
  Cluster cluster_;
  std::unique_ptr<PsControl> control_;
  std::unique_ptr<WorkerBarrier> barrier_;
  std::unique_ptr<CheckpointKeeper> keeper_;  // Before control_ goes.
  std::vector<WorkerState> from_;
  int64_t applied_ = 0;
};

absl::Status EvaluateSaved(const LoadedJob& job, double seconds, int64_t applied) {
  ThreadPool pool(0);
  std::unique_ptr<LocalModel> model;
  auto load = [&](const Checkpoint& found) -> absl::Status {
    model = nullptr;  // First: the scratch directory is the same.
    ASSIGN_OR_RETURN(model, LocalModel::Create(SpecOf(job.plan), NetworkOptionsOf(job.plan.job),
                                               ScratchDir(job.plan.job), &pool));
    return model->Load(found);
  };
  ASSIGN_OR_RETURN(const Checkpoint checkpoint,
                   LatestCheckpoint(CheckpointRoot(job.plan.job), load));
  const std::string& dir = checkpoint.dir;
  std::vector<EvalMetrics> m(1);
  if (job.eval != nullptr) {
    ASSIGN_OR_RETURN(m, Evaluate(model.get(), *job.eval, {job.plan.job.data().batch()}, &pool));
  }
  int64_t samples = checkpoint.info.state().samples();
  std::vector<std::pair<std::string, std::string>> rows = {
      {"rows trained", WithCommas(samples)},
      {"batches applied, by every server", WithCommas(applied)},
      {"samples/s", WithCommas(static_cast<int64_t>(samples / seconds))},
      {"checkpoint", dir}};
  if (job.eval != nullptr) {
    for (auto& row : EvalRows(m)) rows.push_back(row);
  }
  PrintTable(rows);
  if (FLAGS_json) {
    absl::PrintF(
        "{%s, \"samples\": %d, \"samples_per_s\": %.1f, \"batches_applied\": %d, \"checkpoint\": "
        "\"%s\"}\n",
        MetricsJson(m), samples, samples / seconds, applied, dir.c_str());
  }
  return absl::OkStatus();
}

// The death of a process rolls the job back to its last checkpoint: what was
// applied since is in no file, and a worker that began again would count its
// impressions twice.
absl::Status TrainAndRestart(const VerbCall& call, const LoadedJob& job,
                             std::optional<Checkpoint> latest, int64_t* applied) {
  for (int lives = 0;;) {
    Launch launch(call, job, latest);
    absl::Status status = launch.Run();
    *applied = launch.applied();
    const bool lost = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
    if (!lost || StopRequested()->load()) return status;
    lives = launch.saved() ? 1 : lives + 1;
    if (lives > FLAGS_restarts) return status;
    absl::FPrintF(stderr, "ROLLING BACK to the last checkpoint: %s\n", status.message());
    ASSIGN_OR_RETURN(latest, CheckpointToResume(CheckpointRoot(job.plan.job), true));
  }
}

absl::Status Run(const VerbCall& call) {
  if (FLAGS_server_count < 1 || FLAGS_worker_count < 1) {
    return absl::InvalidArgumentError("--server_count and --worker_count must be at least 1");
  }
  ASSIGN_OR_RETURN(LoadedJob job, LoadJob(call));
  RETURN_IF_ERROR(CheckDistributable(job.plan));
  std::string root = CheckpointRoot(job.plan.job);
  ASSIGN_OR_RETURN(const std::optional<Checkpoint> latest, CheckpointToResume(root, FLAGS_resume));
  StopRequested();
  absl::Time start = absl::Now();
  int64_t applied = 0;
  const bool finished =
      latest.has_value() && latest->info.state().finished() &&
      static_cast<int>(latest->info.position().pass()) >= job.plan.job.train().epochs();
  if (!finished) RETURN_IF_ERROR(TrainAndRestart(call, job, latest, &applied));
  double seconds = absl::ToDoubleSeconds(absl::Now() - start);
  return EvaluateSaved(job, seconds, applied);
}

}  // namespace

Verb LaunchVerb() {
  return {"launch",
          "Train with servers and workers as processes on this machine",
          "starling launch --config job.yaml [--server_count 2] [--worker_count 2] [--resume] "
          "[--restarts 3]",
          {"config", "set", "server_count", "worker_count", "resume", "restarts", "json"},
          Run};
}

}  // namespace starling
