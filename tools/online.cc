// starling online: learns from files as they appear in a directory, and
// publishes new versions of the model.
#include "scheduler/online.h"

#include <gflags/gflags.h>

#include <cstdio>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/metrics.h"
#include "base/stages.h"
#include "base/status.h"
#include "base/sync_point.h"
#include "scheduler/trainer.h"
#include "tools/flags.h"
#include "tools/job.h"
#include "tools/publish.h"
#include "tools/verbs.h"

DEFINE_string(watch, "",
              "directory in which Parquet files appear (by rename, when they are complete)");
DEFINE_string(publish_to, "", "publication root for bundles, which `serve` watches");
DEFINE_double(publish_every, 60, "seconds between publications, while there is something new");
DEFINE_double(poll, 1, "seconds between looks at --watch");
DEFINE_double(idle_exit, 0, "end after this many seconds without a new file; 0: never");

namespace starling {
namespace {

absl::Status Run(const VerbCall& call) {
  if (FLAGS_config.empty() || FLAGS_watch.empty() || FLAGS_publish_to.empty()) {
    return absl::InvalidArgumentError("--config, --watch and --publish_to are needed");
  }
  SourceMap map;
  ASSIGN_OR_RETURN(Plan plan, LoadPlan(FLAGS_config, call.set, &map));
  std::unique_ptr<MetricsServer> metrics;
  if (plan.job.train().metrics_port() > 0) {
    ASSIGN_OR_RETURN(metrics, MetricsServer::Start(plan.job.train().metrics_port()));
    ExportStages();
  }
  ASSIGN_OR_RETURN(std::unique_ptr<OnlineLearner> learner,
                   OnlineLearner::Create(plan, map, FLAGS_watch, StopRequested()));
  // One cut, and a bundle of the same moment written beside it, which appears when
  // the checkpoint is complete: a version never shows what a crash could take back.
  auto publish = [&]() -> absl::Status {
    RETURN_IF_ERROR(learner->Begin());
    ASSIGN_OR_RETURN(std::string dir,
                     ExportModel(&learner->model(), learner->state(), plan.job.name(),
                                 FLAGS_publish_to, true, [&] { return learner->Await(); }));
    STARLING_SYNC_POINT("online:published");
    absl::FPrintF(stderr, "published %s (step %d)\n", dir, learner->state().step());
    return absl::OkStatus();
  };
  absl::Time published = absl::InfinitePast(), last_file = absl::Now();
  // A kill may have come between the last checkpoint and its publication, and no file after it.
  ASSIGN_OR_RETURN(const int64_t step_published, PublishedStep(FLAGS_publish_to));
  bool fresh = learner->state().step() > 0 && learner->state().step() != step_published;
  while (!StopRequested()->load()) {
    ASSIGN_OR_RETURN(bool learned, learner->LearnNewFile());
    fresh |= learned;
    if (learned) last_file = absl::Now();
    if (fresh && absl::Now() - published >= absl::Seconds(FLAGS_publish_every)) {
      RETURN_IF_ERROR(publish());
      published = absl::Now();
      fresh = false;
    }
    bool idle = !learned && FLAGS_idle_exit > 0 &&
                absl::Now() - last_file >= absl::Seconds(FLAGS_idle_exit);
    if (idle) break;
    if (!learned) absl::SleepFor(absl::Seconds(FLAGS_poll));
  }
  if (fresh) RETURN_IF_ERROR(publish());
  if (FLAGS_json) {
    absl::PrintF("{\"files\": %d, \"bad_files\": %d, \"samples\": %d, \"step\": %d}\n",
                 learner->files(), learner->bad_files(), learner->state().samples(),
                 learner->state().step());
  }
  if (!StopRequested()->load()) return absl::OkStatus();
  return absl::CancelledError(absl::StrCat("stopped at step ", learner->state().step(),
                                           ", saved; the same command goes on from there"));
}

}  // namespace

Verb OnlineVerb() {
  return {"online",
          "Learn from files as they appear, and publish new versions",
          "starling online --config job.yaml --watch DIR --publish_to DIR",
          {"config", "set", "watch", "publish_to", "publish_every", "poll", "idle_exit", "json"},
          Run};
}

}  // namespace starling
