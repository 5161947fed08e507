// Which files a job's patterns stand for, and what their paths say.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace starling {

// A pattern is a file, a directory or a glob of these. A directory stands for
// every *.parquet below it; names that start with '_' or '.' are skipped, there
// and in globs, as Hive and Spark do. Returns each file once, sorted by path.
// FailedPrecondition, naming the pattern, if one of them stands for no file.
absl::StatusOr<std::vector<std::string>> ListFiles(const std::vector<std::string>& patterns);

// The `key=value` directories of a path, in order, %-escapes undone.
std::vector<std::pair<std::string, std::string>> HiveKeys(const std::string& path);

}  // namespace starling
