// The tasks of a job: which output learns which label by which loss.
#pragma once

#include "absl/status/status.h"
#include "base/yaml_proto.h"
#include "scheduler/plan.h"

namespace starling {

// Adds the job's tasks and labels to the plan's graph and features. A job of one
// label and no `tasks` has none: the graph's default is the log loss of that label.
// InvalidArgument with the place for a task that names no label, a label that no
// task reads, and settings that do not fit the loss or the model.
absl::Status PlanTasks(const SourceMap& map, Plan* plan);

}  // namespace starling
