// starling eval: a checkpoint's worth on a data set.
#include <gflags/gflags.h>

#include <cstdio>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "scheduler/trainer.h"
#include "tools/flags.h"
#include "tools/job.h"
#include "tools/verbs.h"

namespace starling {
namespace {

absl::Status Run(const VerbCall& call) {
  if (FLAGS_config.empty()) return absl::InvalidArgumentError("--config is missing: which job?");
  SourceMap map;
  ASSIGN_OR_RETURN(Plan plan, LoadPlan(FLAGS_config, call.set, &map));
  std::vector<std::string> patterns(plan.job.data().eval().begin(), plan.job.data().eval().end());
  if (!FLAGS_data.empty()) patterns = absl::StrSplit(FLAGS_data, ',');
  if (patterns.empty())
    return map.Error("data", "`eval` is missing: name the files here or with --data");
  ASSIGN_OR_RETURN(std::unique_ptr<SampleSource> source, OpenData(plan, map, patterns));

  ThreadPool pool(plan.job.train().threads());
  std::unique_ptr<LocalModel> model;
  auto load = [&](const Checkpoint& found) -> absl::Status {
    RETURN_IF_ERROR(CheckFits(found, SpecOf(plan)));
    model = nullptr;  // First: the scratch directory is the same.
    ASSIGN_OR_RETURN(model, LocalModel::Create(SpecOf(found.info), NetworkOptionsOf(plan.job),
                                               ScratchDir(plan.job), &pool));
    return model->Load(found);
  };
  ASSIGN_OR_RETURN(
      Checkpoint checkpoint,
      FindCheckpoint(FLAGS_checkpoint.empty() ? CheckpointRoot(plan.job) : FLAGS_checkpoint, load));

  std::function<bool()> stopped = [] { return StopRequested()->load(); };
  double start = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  ASSIGN_OR_RETURN(
      std::vector<EvalMetrics> m,
      Evaluate(model.get(), *source,
               {plan.job.data().batch(), plan.job.data().bad_rows_max(), &stopped}, &pool));
  double rate =
      m[0].samples / std::max(1e-9, absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()) - start);

  std::vector<std::pair<std::string, std::string>> rows = EvalRows(m);
  rows.push_back({"samples/s", WithCommas(static_cast<int64_t>(rate))});
  if (plan.job.data().has_where()) rows.push_back({"where", WhereText(source->counts())});
  rows.push_back({"checkpoint", checkpoint.dir});
  PrintTable(rows);
  if (FLAGS_json) {
    absl::PrintF(
        "{%s, \"samples\": %d, \"samples_per_s\": %.1f, \"step\": %d, \"checkpoint\": \"%s\"}\n",
        MetricsJson(m), m[0].samples, rate, checkpoint.info.state().step(), checkpoint.dir.c_str());
  }
  return absl::OkStatus();
}

}  // namespace

Verb EvalVerb() {
  return {"eval",
          "Evaluate a checkpoint on held-out data",
          "starling eval --config job.yaml [--checkpoint DIR] [--data PATTERNS]",
          {"config", "set", "checkpoint", "data", "json"},
          Run};
}

}  // namespace starling
