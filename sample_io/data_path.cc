#include "sample_io/data_path.h"

#include <arrow/filesystem/filesystem.h>
#include <arrow/io/file.h>
#include <arrow/util/config.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "base/status.h"

namespace starling {
namespace {

constexpr absl::string_view kS3 = "s3://";
constexpr absl::string_view kFile = "file://";

absl::Status Unreachable(const std::string& path, const arrow::Status& status) {
  return absl::FailedPreconditionError(
      absl::StrCat(path, ": cannot be opened (", status.message(), ")"));
}

// S3 stands in a library of its own beside libarrow, loaded when first needed;
// an Arrow that was built as one library has it already.
arrow::Status LoadS3() {
  static const arrow::Status loaded =
      arrow::fs::LoadFileSystemFactories("libarrow_s3.so." ARROW_SO_VERSION);
  return loaded;
}

// The SDK's threads must end before its statics go: called once these exist.
void EndS3AtExit() {
  static const int registered = std::atexit([] { arrow::fs::EnsureFinalized(); });
  (void)registered;
}

struct Remote {
  std::shared_ptr<arrow::fs::FileSystem> fs;
  std::string path;  // As `fs` names it: bucket/key.
};

// One connection a bucket and its options, kept to the end of the process.
absl::StatusOr<Remote> Connect(const std::string& path) {
  static absl::Mutex mu(absl::kConstInit);
  static auto* const systems = new std::map<std::string, std::shared_ptr<arrow::fs::FileSystem>>();
  std::string part = PathPart(path);
  absl::string_view key = absl::StripPrefix(part, kS3);
  absl::string_view bucket = key.substr(0, key.find('/'));
  if (absl::StrContains(bucket, "@")) {
    return absl::InvalidArgumentError(
        "an s3:// path holds credentials; give them in the environment (AWS_ACCESS_KEY_ID, "
        "AWS_SECRET_ACCESS_KEY) and take them out of the path");
  }
  if (bucket.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": names no bucket"));
  const std::string root = absl::StrCat(kS3, bucket, OptionsPart(path));
  absl::MutexLock lock(&mu);
  std::shared_ptr<arrow::fs::FileSystem>& fs = (*systems)[root];
  if (fs == nullptr) {
    if (auto status = LoadS3(); !status.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat(path, ": this build's Arrow cannot read s3:// (", status.message(), ")"));
    }
    auto made = arrow::fs::FileSystemFromUri(root);
    if (!made.ok())
      return absl::InvalidArgumentError(absl::StrCat(path, ": ", made.status().message()));
    fs = *std::move(made);
    EndS3AtExit();
  }
  return Remote{fs, std::string(key)};
}

}  // namespace

bool IsRemote(absl::string_view path) { return absl::StartsWith(path, kS3); }

std::string LocalPath(const std::string& path) {
  return std::string(absl::StripPrefix(path, kFile));
}

std::string PathPart(const std::string& path) {
  return IsRemote(path) ? path.substr(0, path.find('?')) : path;
}

std::string OptionsPart(const std::string& path) {
  const size_t at = IsRemote(path) ? path.find('?') : std::string::npos;
  return at == std::string::npos ? "" : path.substr(at);
}

absl::StatusOr<std::vector<std::string>> ListRemote(const std::string& path) {
  ASSIGN_OR_RETURN(Remote remote, Connect(path));
  while (absl::EndsWith(remote.path, "/")) remote.path.pop_back();
  auto info = remote.fs->GetFileInfo(remote.path);
  if (!info.ok()) return Unreachable(path, info.status());
  if (info->type() == arrow::fs::FileType::NotFound) return std::vector<std::string>();
  if (info->type() == arrow::fs::FileType::File) return std::vector<std::string>{path};
  arrow::fs::FileSelector selector;
  selector.base_dir = remote.path;
  selector.recursive = true;
  auto found = remote.fs->GetFileInfo(selector);
  if (!found.ok()) return Unreachable(path, found.status());
  std::vector<std::string> files;
  for (const arrow::fs::FileInfo& file : *found) {
    if (file.IsFile()) files.push_back(absl::StrCat(kS3, file.path(), OptionsPart(path)));
  }
  std::sort(files.begin(), files.end());
  return files;
}

absl::StatusOr<std::shared_ptr<arrow::io::RandomAccessFile>> OpenInput(const std::string& path) {
  if (!IsRemote(path)) {
    auto opened = arrow::io::ReadableFile::Open(path);
    if (!opened.ok()) return Unreachable(path, opened.status());
    return std::shared_ptr<arrow::io::RandomAccessFile>(*std::move(opened));
  }
  ASSIGN_OR_RETURN(Remote remote, Connect(path));
  auto opened = remote.fs->OpenInputFile(remote.path);
  if (!opened.ok()) return Unreachable(path, opened.status());
  return *std::move(opened);
}

}  // namespace starling
