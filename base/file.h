// Files, with a seam where tests inject faults. All durable output of Starling
// goes through here; nothing else calls open, write, fsync or rename.
//
// Errors name the path. ENOSPC and EIO are ResourceExhausted and DataLoss,
// EACCES and EROFS PermissionDenied, ENOENT NotFound.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace starling {

class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual absl::Status Append(absl::string_view bytes) = 0;
  virtual absl::Status Flush() = 0;  // Visible to readers; not durable.
  // Flushes, fsyncs and closes. The data is durable only if this returns ok.
  // A file destroyed without Close is left as it is: not durable.
  virtual absl::Status Close() = 0;
  virtual const std::string& path() const = 0;
};

// "path: cannot op: why", by the rule above.
absl::Status ErrnoStatus(int error, absl::string_view op, absl::string_view path);

// Creates or truncates. Writes are buffered.
absl::StatusOr<std::unique_ptr<WritableFile>> CreateFile(const std::string& path);
// The same for a file of many megabytes that nobody reads soon: what fills its
// buffer of 1 MiB goes past the page cache, if the file system can do that. That
// costs a tenth of the CPU time, and pushes nothing else out of the cache.
absl::StatusOr<std::unique_ptr<WritableFile>> CreateLargeFile(const std::string& path);
// As CreateFile, but keeps what the file holds and writes behind it.
absl::StatusOr<std::unique_ptr<WritableFile>> AppendToFile(const std::string& path);
absl::StatusOr<std::string> ReadFile(const std::string& path);
// The same for a large file: calls fn for each piece of up to 1 MiB, in order.
absl::Status ReadFileInPieces(const std::string& path,
                              const std::function<void(absl::string_view)>& fn);

// A file that is read from place to place. Thread safety: any thread.
class ReadableFile {
 public:
  static absl::StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path);
  ~ReadableFile();
  ReadableFile(const ReadableFile&) = delete;
  ReadableFile& operator=(const ReadableFile&) = delete;
  int64_t size() const { return size_; }  // When it was opened.
  // Fills `out`; DataLoss if the file ends before.
  absl::Status ReadAt(int64_t offset, std::span<char> out) const;

 private:
  ReadableFile(const std::string& path, int fd, int64_t size) : path_(path), fd_(fd), size_(size) {}
  const std::string path_;
  const int fd_;
  const int64_t size_;
};

// Readers see the old content or the new, never a mixture: temporary name,
// fsync, rename, fsync of the directory.
absl::Status WriteFileAtomically(const std::string& path, absl::string_view bytes);

absl::Status MakeDirs(const std::string& path);
absl::Status RenamePath(const std::string& from,
                        const std::string& to);  // Also fsyncs to's directory.
absl::Status RemoveAll(const std::string& path);
absl::StatusOr<std::vector<std::string>> ListDir(const std::string& path);  // Names, sorted.
bool PathExists(const std::string& path);
std::string JoinPath(absl::string_view a, absl::string_view b);

// Called before each write-side operation with its name ("create", "append",
// "sync", "rename", "mkdir", "remove") and path; a non-ok Status is returned
// in its place. Null restores the real thing. For tests; not thread-safe
// against operations under way.
using FileFault = std::function<absl::Status(absl::string_view op, absl::string_view path)>;
void SetFileFault(FileFault fault);

}  // namespace starling
