#include "tools/bench_store_machine.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/random.h"
#include "base/status.h"
#include "tools/bench_store.h"

namespace starling {
namespace {

constexpr int64_t kPage = 4096, kPiece = 1 << 20;

absl::Status Failed(const std::string& what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", strerror(errno)));
}

// A control file takes a value in one write, and can be neither made nor truncated.
absl::Status WriteControl(const std::string& path, const std::string& value) {
  int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return Failed(path);
  auto closer = absl::MakeCleanup([fd] { close(fd); });
  if (write(fd, value.data(), value.size()) != static_cast<ssize_t>(value.size())) {
    return Failed(path);
  }
  return absl::OkStatus();
}

absl::StatusOr<double> ReadsPerSecond(int fd, int64_t bytes, int threads, double seconds) {
  std::atomic<int64_t> done{0};
  auto read = [&](int t) -> absl::Status {
    std::unique_ptr<void, void (*)(void*)> page(aligned_alloc(kPage, kPage), free);
    int64_t mine = 0;
    for (double end = Seconds() + seconds; Seconds() < end; ++mine) {
      int64_t at = RandomBelow(t + 100 * threads, mine, bytes / kPage) * kPage;
      if (pread(fd, page.get(), kPage, at) != kPage) return Failed("pread of the scratch file");
    }
    done += mine;
    return absl::OkStatus();
  };
  ASSIGN_OR_RETURN(double took, RunThreads(threads, read));
  return static_cast<double>(done) / took;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MemoryGroup>> MemoryGroup::Create() {
  const std::string name = absl::StrCat("starling-bench.", getpid());
  struct Hierarchy {
    const char *root, *limit;
  };
  absl::Status status = absl::UnavailableError("no memory cgroup under /sys/fs/cgroup");
  for (Hierarchy h : {Hierarchy{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
                      Hierarchy{"/sys/fs/cgroup", "memory.max"}}) {
    if (!PathExists(JoinPath(h.root, "cgroup.procs"))) continue;
    const std::string path = JoinPath(h.root, name);
    std::error_code error;
    if (!std::filesystem::create_directory(path, error)) {
      status = absl::UnavailableError(absl::StrCat(path, ": ", error.message()));
      continue;
    }
    std::unique_ptr<MemoryGroup> group(new MemoryGroup(path, h.limit));
    if (PathExists(JoinPath(path, h.limit))) return group;
    status = absl::UnavailableError(absl::StrCat(path, " has no ", h.limit));
  }
  return status;
}

MemoryGroup::~MemoryGroup() { rmdir(path_.c_str()); }

absl::Status MemoryGroup::Limit(int64_t bytes) {
  return WriteControl(JoinPath(path_, limit_file_), absl::StrCat(bytes));
}

absl::Status MemoryGroup::Join(const std::string& path) {
  return WriteControl(JoinPath(path, "cgroup.procs"), absl::StrCat(getpid()));
}

absl::StatusOr<DiskRate> MeasureDisk(const std::string& scratch_file, int64_t bytes,
                                     double seconds) {
  int fd = open(scratch_file.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_DIRECT | O_CLOEXEC, 0600);
  if (fd < 0) return Failed(absl::StrCat(scratch_file, " past the page cache"));
  auto closer = absl::MakeCleanup([&] {
    close(fd);
    unlink(scratch_file.c_str());
  });
  std::unique_ptr<void, void (*)(void*)> piece(aligned_alloc(kPage, kPiece), free);
  memset(piece.get(), 7, kPiece);
  for (int64_t at = 0; at < bytes; at += kPiece) {
    if (pwrite(fd, piece.get(), kPiece, at) != kPiece) return Failed(scratch_file);
  }
  DiskRate rate;
  ASSIGN_OR_RETURN(rate.one, ReadsPerSecond(fd, bytes, 1, seconds));
  ASSIGN_OR_RETURN(rate.many, ReadsPerSecond(fd, bytes, 32, seconds));
  return rate;
}

int64_t DiskBytesRead() {
  absl::StatusOr<std::string> text = ReadFile("/proc/self/io");
  if (!text.ok()) return 0;
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    int64_t bytes = 0;
    if (words[0] == "read_bytes:" && words.size() > 1 && absl::SimpleAtoi(words[1], &bytes)) {
      return bytes;
    }
  }
  return 0;
}

}  // namespace starling
