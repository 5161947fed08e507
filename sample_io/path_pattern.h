// The braces and wildcards of a path pattern.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace starling {

// "{a,b}" → one pattern for each member, the first brace varying slowest.
// Ranges stay as they are; so does a brace that is neither.
std::vector<std::string> ExpandLists(const std::string& pattern);
// "{08..11}" → "08" … "11", with the leading zeros of the first number kept.
// InvalidArgument, naming the range, if it runs backwards or is longer than 100,000.
absl::StatusOr<std::vector<std::string>> ExpandRanges(const std::string& pattern);
bool HasRange(const std::string& pattern);

// Whether `path` matches; * and ? stay inside one name and do not match a leading dot.
bool MatchesPath(const std::string& pattern, const std::string& path);
// Whether it or a directory above it does.
bool MatchesPathOrParent(const std::string& pattern, const std::string& path);

}  // namespace starling
