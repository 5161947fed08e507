// Limits of the values of a job, which proto types cannot express: each error
// names the place in the config and what is allowed.
#pragma once

#include "absl/status/status.h"
#include "base/yaml_proto.h"
#include "scheduler/job.pb.h"

namespace starling {

absl::Status CheckValues(const Job& job, const SourceMap& map);

// A model whose loss looks at the whole batch does not train on several devices.
absl::Status CheckShared(const TrainOptions& train, const GraphSpec& graph, const SourceMap& map);

// Letters, digits, `_`, `-` and `.`, not beginning with `.`: fit for files, URLs and JSON.
bool IsName(const std::string& name);

// "lr", "deepfm", … as the YAML has it; "" if none is chosen.
std::string ModelName(const ModelOptions& model);

}  // namespace starling
