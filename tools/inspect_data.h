// starling inspect data: statistics of every column of a data set, or how far
// its columns moved from it to another.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace starling {

// Reads --against, --columns, --where, --threads and --json.
absl::Status RunInspectData(const std::vector<std::string>& patterns);
// InvalidArgument if a flag is set that only `inspect data` knows.
absl::Status CheckNoDataFlags();

}  // namespace starling
