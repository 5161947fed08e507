#include "embedding_store/scratch_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"

namespace starling {
namespace {

absl::Status Taken(const std::string& dir, int fd) {
  char pid[32] = {};
  const bool known = ::pread(fd, pid, sizeof(pid) - 1, 0) > 0;
  return absl::FailedPreconditionError(
      absl::StrCat(dir, ": another table uses this scratch directory",
                   known ? absl::StrCat(" (process ", pid, ")") : "", "; give each its own"));
}

// True if `path` still names the file that `fd` is.
bool Names(const std::string& path, int fd) {
  struct stat there, mine;
  return ::stat(path.c_str(), &there) == 0 && ::fstat(fd, &mine) == 0 &&
         there.st_ino == mine.st_ino && there.st_dev == mine.st_dev;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ScratchLock>> ScratchLock::Take(const std::string& dir) {
  const std::string path = dir + ".lock";
  const std::string parent = std::filesystem::path(path).parent_path().string();
  if (!parent.empty()) RETURN_IF_ERROR(Annotate(MakeDirs(parent), dir));
  for (;;) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) return ErrnoStatus(errno, "open", path);
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
      const absl::Status status =
          errno == EWOULDBLOCK ? Taken(dir, fd) : ErrnoStatus(errno, "lock", path);
      ::close(fd);
      return status;
    }
    if (!Names(path, fd)) {  // The owner before us has just removed it: the file there now counts.
      ::close(fd);
      continue;
    }
    auto lock = std::unique_ptr<ScratchLock>(new ScratchLock(path, fd));
    const std::string pid = absl::StrCat(::getpid());
    if (::ftruncate(fd, 0) != 0 || ::pwrite(fd, pid.data(), pid.size(), 0) < 0) {
      return ErrnoStatus(errno, "write", path);
    }
    return lock;
  }
}

ScratchLock::~ScratchLock() {
  ::unlink(path_.c_str());  // Before the lock ends: see Names.
  ::close(fd_);
}

}  // namespace starling
