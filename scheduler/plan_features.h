// A feature block of a job → the features it lists, resolved but for their
// tables: names, steps (sample_io/derive.h) and the columns they read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/yaml_proto.h"
#include "sample_io/data.pb.h"
#include "scheduler/job.pb.h"

namespace starling {

// What a column of the data must hold to be used so.
enum class ColumnUse {
  kIds,        // Integers, strings, or lists of either.
  kStrings,    // Strings or lists of strings.
  kWeighted,   // The same, or a map of ids to numbers.
  kNumber,     // Numbers.
  kNumbers,    // Numbers or lists of numbers.
  kVector,     // Lists of numbers.
  kIdList,     // Lists of integers or strings.
  kMap,        // Maps or strings.
  kNestedMap,  // Maps of maps, or strings.
  kTimes,      // Lists of timestamps or integers.
  kTime,       // Timestamps or integers.
  kLabel,      // Numbers, not all null.
  kGroup,      // Integers or strings.
};

struct ColumnNeed {
  std::string path;  // In the config.
  std::string column;
  ColumnUse use;
};

// Exactly one of `id` and `raw` is there.
struct BlockFeature {
  std::string path;  // Where its name is written, or its block.
  std::optional<IdFeature> id;
  std::optional<RawFeature> raw;
  std::vector<ColumnNeed> needs;
  bool positions = false;  // Not pooled: each of its ids reaches the model.

  const std::string& name() const { return id ? id->name() : raw->name(); }
};

// InvalidArgument with the place for a block of no or several kinds, keys that do
// not belong to its kind, and values out of range.
absl::StatusOr<std::vector<BlockFeature>> FeaturesOfBlock(const FeatureBlock& block,
                                                          const std::string& path,
                                                          const DataOptions& data,
                                                          const SourceMap& map);

}  // namespace starling
