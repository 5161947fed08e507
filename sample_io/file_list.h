// Which files a job's patterns stand for, and what their paths say.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace starling {

// A pattern is a file, a directory, or either with wildcards (* ? [a-z]) and
// braces: {a,b} stands for each of its members, {20260801..20260807} for the
// numbers of the range that exist, leading zeros kept. It may be local,
// file:///path or s3://bucket/key?options (see data_path.h). A directory
// stands for every file of a known extension (sample_file.h) below it; names
// that start with '_' or '.' are skipped, there and in wildcards, as Hive and
// Spark do. `@list` or a file *.manifest is a list of patterns, one a line,
// relative to its own directory; # starts a comment.
//
// Returns each file once, sorted by path. FailedPrecondition, naming the
// pattern, if one of them stands for no file.
absl::StatusOr<std::vector<std::string>> ListFiles(const std::vector<std::string>& patterns);

// The `key=value` directories of a path, in order, %-escapes undone.
std::vector<std::pair<std::string, std::string>> HiveKeys(const std::string& path);

}  // namespace starling
