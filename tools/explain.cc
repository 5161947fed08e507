// starling explain: names what held a run back, and what to change.
#include "scheduler/explain.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "scheduler/run_record.h"
#include "tools/flags.h"
#include "tools/verbs.h"

namespace starling {
namespace {

absl::Status Run(const VerbCall& call) {
  if (call.args.size() != 1) {
    return absl::InvalidArgumentError(
        "explain takes one argument, the directory of a run (train.dir)");
  }
  ASSIGN_OR_RETURN(const RunRecord run, ReadRunRecord(call.args[0]));
  const Explanation e = Explain(run);
  if (FLAGS_json) {
    const nlohmann::json json = {{"bottleneck", e.bottleneck},
                                 {"work_share", e.work_share},
                                 {"why", e.why},
                                 {"advice", e.advice}};
    absl::PrintF("%s\n", json.dump());
    return absl::OkStatus();
  }
  absl::PrintF("%s: %d steps in %.1f s, %.0f samples/s\n", run.job(), run.steps(),
               run.train_seconds(),
               static_cast<double>(run.samples()) / std::max(1e-9, run.train_seconds()));
  absl::PrintF("%-12s %10s %10s   %s\n", "stage", "work s", "wait s", "queue before it");
  for (const StageRecord& stage : run.stages()) {
    absl::PrintF("%-12s %10.2f %10.2f", stage.name(), stage.busy(), stage.wait());
    if (stage.queue_most() > 0) absl::PrintF("   %.1f of %d", stage.queue(), stage.queue_most());
    absl::PrintF("\n");
  }
  absl::PrintF("\nbottleneck: %s; %s\n", e.bottleneck, e.why);
  for (const std::string& line : e.advice) absl::PrintF("  - %s\n", line);
  return absl::OkStatus();
}

}  // namespace

Verb ExplainVerb() {
  return {"explain",
          "Name what held a run back, and what to change",
          "starling explain RUN_DIR [--json]",
          {"json"},
          Run};
}

}  // namespace starling
