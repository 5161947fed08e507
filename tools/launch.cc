// starling launch: servers and workers on this machine, from start to a
// checkpoint that `eval` and `export` read like any other.
#include <gflags/gflags.h>
#include <unistd.h>

#include <cstdio>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/status.h"
#include "ps/parameter_client.h"
#include "scheduler/trainer.h"
#include "scheduler/worker.h"
#include "tools/flags.h"
#include "tools/job.h"
#include "tools/process.h"
#include "tools/verbs.h"

DEFINE_int32(server_count, 2, "parameter servers to start");
DEFINE_int32(worker_count, 2, "workers to start");

namespace starling {
namespace {

struct Cluster {
  std::vector<Process> servers, workers;
  std::vector<std::string> addresses;
  std::string dir;  // For port files and cold tiers; removed in the end.
};

// The port a server wrote to its file, as soon as it is there.
absl::StatusOr<int> AwaitPort(const std::string& file, Process* server) {
  while (!StopRequested()->load()) {
    absl::StatusOr<std::string> text = ReadFile(file);
    int port;
    if (text.ok() && absl::SimpleAtoi(*text, &port)) return port;
    if (server->Ended()) {
      return absl::UnavailableError(
          absl::StrCat("a parameter server ended with exit code ", server->exit_code()));
    }
    absl::SleepFor(absl::Milliseconds(10));
  }
  return absl::CancelledError("stopped while servers were starting");
}

absl::Status StartServers(Cluster* cluster) {
  for (int i = 0; i < FLAGS_server_count; ++i) {
    std::string base = JoinPath(cluster->dir, absl::StrCat("ps-", i));
    ASSIGN_OR_RETURN(Process p, Process::Start({"ps", "--shard", absl::StrCat(i), "--shards",
                                                absl::StrCat(FLAGS_server_count), "--port_file",
                                                base + ".port", "--scratch", base}));
    cluster->servers.push_back(std::move(p));
  }
  for (int i = 0; i < FLAGS_server_count; ++i) {
    std::string file = JoinPath(cluster->dir, absl::StrCat("ps-", i, ".port"));
    ASSIGN_OR_RETURN(int port, AwaitPort(file, &cluster->servers[i]));
    cluster->addresses.push_back(absl::StrCat("127.0.0.1:", port));
  }
  return absl::OkStatus();
}

absl::Status StartWorkers(const VerbCall& call, Cluster* cluster) {
  for (int i = 0; i < FLAGS_worker_count; ++i) {
    std::vector<std::string> args = {"worker",
                                     "--config",
                                     FLAGS_config,
                                     "--servers",
                                     absl::StrJoin(cluster->addresses, ","),
                                     "--worker",
                                     absl::StrCat(i),
                                     "--workers",
                                     absl::StrCat(FLAGS_worker_count)};
    for (const std::string& s : call.set) args.insert(args.end(), {"--set", s});
    ASSIGN_OR_RETURN(Process p, Process::Start(args));
    cluster->workers.push_back(std::move(p));
  }
  return absl::OkStatus();
}

// Returns when all workers ended well; an error as soon as anything else ends.
absl::Status AwaitWorkers(Cluster* cluster) {
  while (true) {
    int running = 0;
    for (size_t i = 0; i < cluster->workers.size(); ++i) {
      Process& w = cluster->workers[i];
      if (!w.Ended()) {
        ++running;
      } else if (w.exit_code() != 0) {
        return absl::UnavailableError(
            absl::StrCat("worker ", i, " ended with exit code ", w.exit_code()));
      }
    }
    if (running == 0) return absl::OkStatus();
    for (size_t i = 0; i < cluster->servers.size(); ++i) {
      if (!cluster->servers[i].Ended()) continue;
      return absl::UnavailableError(
          absl::StrCat("server ", i, " ended with exit code ", cluster->servers[i].exit_code()));
    }
    if (StopRequested()->load()) return absl::CancelledError("stopped; nothing was saved");
    absl::SleepFor(absl::Milliseconds(20));
  }
}

absl::StatusOr<std::string> SaveAll(const LoadedJob& job, PsControl* control, int64_t steps) {
  CheckpointInfo info = InfoOf(job.plan, FLAGS_server_count);
  info.mutable_state()->set_step(steps);
  info.mutable_state()->set_samples(job.train->rows() * job.plan.job.train().epochs());
  info.mutable_state()->set_finished(true);
  info.mutable_position()->set_pass(job.plan.job.train().epochs());
  info.mutable_position()->set_source(job.train->fingerprint());
  return WriteCheckpoint(CheckpointRoot(job.plan.job), info,
                         {job.plan.job.train().checkpoint().keep()},
                         [&](const std::string& dir) { return control->Save(dir); });
}

absl::Status EvaluateSaved(const LoadedJob& job, const std::string& dir, double seconds,
                           int64_t applied) {
  ASSIGN_OR_RETURN(Checkpoint checkpoint, OpenCheckpoint(dir));
  ThreadPool pool(0);
  ASSIGN_OR_RETURN(std::unique_ptr<LocalModel> model,
                   LocalModel::Create(SpecOf(job.plan), NetworkOptionsOf(job.plan.job),
                                      ScratchDir(job.plan.job), &pool));
  RETURN_IF_ERROR(model->Load(checkpoint));
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

// All servers see every batch: their counts must agree.
absl::StatusOr<int64_t> AppliedBatches(PsControl* control) {
  ASSIGN_OR_RETURN(std::vector<PsControl::Stats> stats, control->GetStats());
  for (const PsControl::Stats& s : stats) {
    if (s.batches_applied == stats[0].batches_applied) continue;
    return absl::InternalError(absl::StrCat("servers applied different numbers of batches: ",
                                            stats[0].batches_applied, " and ", s.batches_applied));
  }
  return stats[0].batches_applied;
}

absl::Status Train(const VerbCall& call, const LoadedJob& job, Cluster* cluster) {
  RETURN_IF_ERROR(StartServers(cluster));
  absl::Time start = absl::Now();
  RETURN_IF_ERROR(StartWorkers(call, cluster));
  RETURN_IF_ERROR(AwaitWorkers(cluster));
  double seconds = absl::ToDoubleSeconds(absl::Now() - start);
  ASSIGN_OR_RETURN(std::unique_ptr<PsControl> control, PsControl::Connect(cluster->addresses));
  ASSIGN_OR_RETURN(int64_t applied, AppliedBatches(control.get()));
  ASSIGN_OR_RETURN(std::string dir, SaveAll(job, control.get(), applied));
  RETURN_IF_ERROR(control->Stop());
  for (Process& s : cluster->servers) s.WaitFor(absl::Seconds(10));
  return EvaluateSaved(job, dir, seconds, applied);
}

absl::Status Run(const VerbCall& call) {
  if (FLAGS_server_count < 1 || FLAGS_worker_count < 1) {
    return absl::InvalidArgumentError("--server_count and --worker_count must be at least 1");
  }
  ASSIGN_OR_RETURN(LoadedJob job, LoadJob(call));
  RETURN_IF_ERROR(CheckDistributable(job.plan));
  std::string root = CheckpointRoot(job.plan.job);
  if (absl::StatusOr<Checkpoint> latest = LatestCheckpoint(root);
      !absl::IsNotFound(latest.status())) {
    return absl::AlreadyExistsError(
        absl::StrCat(root, ": holds checkpoints already; choose another train.dir"));
  }
  StopRequested();
  Cluster cluster;
  cluster.dir = ScratchDir(job.plan.job);
  RETURN_IF_ERROR(MakeDirs(cluster.dir));
  absl::Status status = Train(call, job, &cluster);
  cluster.workers.clear();  // Kills what still runs.
  cluster.servers.clear();
  RemoveAll(cluster.dir).IgnoreError();
  return status;
}

}  // namespace

Verb LaunchVerb() {
  return {"launch",
          "Train with servers and workers as processes on this machine",
          "starling launch --config job.yaml [--server_count 2] [--worker_count 2]",
          {"config", "set", "server_count", "worker_count", "json"},
          Run};
}

}  // namespace starling
