// starling worker: trains its share of the splits against parameter servers.
#include "scheduler/worker.h"

#include <gflags/gflags.h>

#include <cstdio>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "tools/flags.h"
#include "tools/job.h"
#include "tools/verbs.h"

DEFINE_string(servers, "", "host:port of every server, in shard order, separated by commas");
DEFINE_int32(worker, 0, "which worker this is, from 0");
DEFINE_int32(workers, 1, "how many workers there are");
DEFINE_string(launcher, "",
              "host:port of the launcher that holds and releases workers; none: nobody does");

namespace starling {
namespace {

absl::Status Run(const VerbCall& call) {
  if (FLAGS_servers.empty())
    return absl::InvalidArgumentError("--servers is missing: where are the parameters?");
  if (FLAGS_workers < 1 || FLAGS_worker < 0 || FLAGS_worker >= FLAGS_workers) {
    return absl::InvalidArgumentError(
        absl::StrCat("--worker ", FLAGS_worker, " is not among 0..", FLAGS_workers - 1));
  }
  ASSIGN_OR_RETURN(LoadedJob job, LoadJob(call));
  WorkerOptions options;
  options.servers = absl::StrSplit(FLAGS_servers, ',');
  options.worker = FLAGS_worker;
  options.workers = FLAGS_workers;
  options.launcher = FLAGS_launcher;
  ASSIGN_OR_RETURN(WorkerSummary s, RunWorker(job.plan, *job.train, options, StopRequested()));
  std::fprintf(stderr, "worker %d: %s rows in %s steps\n", FLAGS_worker,
               WithCommas(s.samples).c_str(), WithCommas(s.steps).c_str());
  if (FLAGS_json) {
    absl::PrintF("{\"worker\": %d, \"samples\": %d, \"steps\": %d, \"samples_per_s\": %.1f}\n",
                 FLAGS_worker, s.samples, s.steps, s.samples / std::max(1e-9, s.seconds));
  }
  return absl::OkStatus();
}

}  // namespace

Verb WorkerVerb() {
  return {"worker",
          "Train against parameter servers",
          "starling worker --config job.yaml --servers HOST:PORT,… --worker I --workers N",
          {"config", "set", "servers", "worker", "workers", "launcher", "json"},
          Run};
}

}  // namespace starling
