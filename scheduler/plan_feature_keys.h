// Which keys a feature block may have, by its kind, and the limits of their values.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/yaml_proto.h"
#include "scheduler/job.pb.h"

namespace starling {

// "id", "combo", …: the one kind that the block has.
absl::StatusOr<std::string> FeatureKind(const FeatureBlock& block, const std::string& path,
                                        const SourceMap& map);
// Whether the block's features are ids, rather than numbers. A sequence may have both.
bool GivesIds(const FeatureBlock& block, const std::string& kind);
// InvalidArgument for the first key that does not belong to the kind, or whose
// value is out of range.
absl::Status CheckFeatureKeys(const FeatureBlock& block, const std::string& kind,
                              const std::string& path, const SourceMap& map);

}  // namespace starling
