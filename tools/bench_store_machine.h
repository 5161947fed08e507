// What benchmarks of rows out of core ask of the machine: a memory cgroup, disk rates, readings of
// /proc.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace starling {

// Beside the table's budget a process needs some memory of its own, and
// RocksDB its write buffers: a cgroup's limit is the budget and this much.
inline constexpr int64_t kProcessBytes = 256 << 20;

// A memory cgroup of its own, removed with the object. What its processes hold
// counts, the page cache they fill included.
class MemoryGroup {
 public:
  // Fails where the user may not make one, or the kernel has none.
  static absl::StatusOr<std::unique_ptr<MemoryGroup>> Create();
  ~MemoryGroup();
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;
  absl::Status Limit(int64_t bytes);
  const std::string& path() const { return path_; }
  // Moves the calling process into the group at `path`.
  static absl::Status Join(const std::string& path);

 private:
  MemoryGroup(std::string path, const char* limit_file)
      : path_(std::move(path)), limit_file_(limit_file) {}
  const std::string path_;
  const char* const limit_file_;
};

// Random reads of 4 KiB a second, past the page cache, by one thread and by 32.
struct DiskRate {
  double one = 0, many = 0;
};
absl::StatusOr<DiskRate> MeasureDisk(const std::string& scratch_file, int64_t bytes,
                                     double seconds);

int64_t DiskBytesRead();  // By this process, so far.

}  // namespace starling
