// Plan: a job resolved. Which feature is which slot of which table, what a row
// of each table holds, and the graph that reads them. All later stages use the
// plan; only messages to the user go back to the YAML.
#pragma once

#include "absl/status/statusor.h"
#include "base/yaml_proto.h"
#include "dense_net/model.pb.h"
#include "embedding_store/table.pb.h"
#include "sample_io/data.pb.h"
#include "sample_io/source.h"
#include "scheduler/job.pb.h"
#include "scheduler/plan_features.h"

namespace starling {

struct Plan {
  Job job;  // As written, with defaults for train.dir and the like filled in.
  FeatureSet features;
  TableSet tables;
  GraphSpec graph;
  std::vector<ColumnNeed> needs;  // All that is read of the data, and from where in the config.
};

// InvalidArgument with file:line:column for what proto types cannot express: a
// block of neither or both kinds, a feature twice, tables of one name that
// differ, a feature that the model does not use.
absl::StatusOr<Plan> MakePlan(const Job& job, const SourceMap& map);

// Reads and plans a config file; `overrides` as in ParseYaml.
absl::StatusOr<Plan> LoadPlan(const std::string& path, const std::vector<std::string>& overrides,
                              SourceMap* map);

// Checks that the data has every column the plan reads, of a type that fits:
// InvalidArgument with the place in the config and the nearest column's name.
absl::Status CheckSchema(const Plan& plan, const SourceMap& map, const SampleSource& source);

// Identity of the features: a checkpoint or bundle fits only data compiled alike.
uint64_t FeatureHash(const FeatureSet& features);

}  // namespace starling
