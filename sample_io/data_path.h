// Where data lies: local paths, and URIs of a remote file system,
// s3://bucket/key?region=…&endpoint_override=…&scheme=http. The options after
// `?` belong to each file's path, so a path alone is enough to open it.
// Credentials come from the environment, never from a path, since paths are
// printed and stored.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace arrow::io {
class RandomAccessFile;
}

namespace starling {

// True for s3://…; file://… is a local path, see LocalPath.
bool IsRemote(absl::string_view path);
// Without "file://", if it is there.
std::string LocalPath(const std::string& path);
// A remote path without its options; a local one as it is. Names, extensions
// and Hive keys are read from this.
std::string PathPart(const std::string& path);
// "?region=…" of a remote path, or "".
std::string OptionsPart(const std::string& path);

// Every file below a remote directory, or the file itself, sorted. Empty if
// there is nothing. Options are carried over.
absl::StatusOr<std::vector<std::string>> ListRemote(const std::string& path);

// Opens local and remote files alike. FailedPrecondition, naming the path.
absl::StatusOr<std::shared_ptr<arrow::io::RandomAccessFile>> OpenInput(const std::string& path);

}  // namespace starling
