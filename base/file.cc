#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/status.h"
#include "base/sync_point.h"
#include "base/wrong.h"

namespace starling {

absl::Status ErrnoStatus(int error, absl::string_view op, absl::string_view path) {
  std::string message = absl::StrCat(path, ": cannot ", op, ": ", std::strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(message);
    case EEXIST:
      return absl::AlreadyExistsError(message);
    case ENOSPC:
    case EDQUOT:
      return absl::ResourceExhaustedError(absl::StrCat(message, "; free some space and run again"));
    case EIO:
      return absl::DataLossError(message);
    default:
      return absl::UnknownError(message);
  }
}

namespace {

FileFault& Fault() {
  static FileFault* fault = new FileFault;
  return *fault;
}

absl::Status CheckFault(absl::string_view op, absl::string_view path) {
  return Fault() == nullptr ? absl::OkStatus() : Fault()(op, path);
}

std::string DirOf(const std::string& path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

absl::Status SyncDir(const std::string& dir) {
  if (STARLING_WRONG("no_dir_sync")) return absl::OkStatus();
  RETURN_IF_ERROR(CheckFault("sync", dir));
  int fd = ::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, "open directory", dir);
  int error = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  return error == 0 ? absl::OkStatus() : ErrnoStatus(error, "fsync directory", dir);
}

class PosixFile : public WritableFile {
 public:
  PosixFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  ~PosixFile() override {
    if (fd_ >= 0) ::close(fd_);
  }

  absl::Status Append(absl::string_view bytes) override {
    RETURN_IF_ERROR(CheckFault("append", path_));
    if (buffer_.size() + bytes.size() > kBuffer) RETURN_IF_ERROR(Flush());
    if (bytes.size() >= kBuffer) return Write(bytes);
    buffer_.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  }

  absl::Status Flush() override {
    RETURN_IF_ERROR(Write(buffer_));
    buffer_.clear();
    return absl::OkStatus();
  }

  absl::Status Close() override {
    RETURN_IF_ERROR(Flush());
    STARLING_SYNC_POINT("file:before_sync");
    if (STARLING_WRONG("no_sync")) return absl::OkStatus();
    RETURN_IF_ERROR(CheckFault("sync", path_));
    if (::fsync(fd_) != 0) return ErrnoStatus(errno, "fsync", path_);
    if (::close(std::exchange(fd_, -1)) != 0) return ErrnoStatus(errno, "close", path_);
    return absl::OkStatus();
  }

  const std::string& path() const override { return path_; }

 protected:
  absl::Status Write(absl::string_view bytes) {
    while (!bytes.empty()) {
      ssize_t n = ::write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoStatus(errno, "write", path_);
      bytes.remove_prefix(n);
    }
    return absl::OkStatus();
  }

  const std::string path_;
  int fd_;

 private:
  static constexpr size_t kBuffer = 1 << 16;

  std::string buffer_;
};

class LargeFile : public PosixFile {
 public:
  using PosixFile::PosixFile;

  absl::Status Append(absl::string_view bytes) override {
    RETURN_IF_ERROR(CheckFault("append", path_));
    while (!bytes.empty()) {
      const size_t n = std::min(bytes.size(), kPiece - size_);
      std::memcpy(piece_.get() + size_, bytes.data(), n);
      size_ += n;
      bytes.remove_prefix(n);
      if (size_ == kPiece) RETURN_IF_ERROR(WritePiece());
    }
    return absl::OkStatus();
  }

  absl::Status Flush() override {
    if (size_ == 0) return absl::OkStatus();
    // What follows a part of a piece does not begin at a block of the disk.
    UseCache();
    pieces_only_ = false;
    return WritePiece();
  }

 private:
  static constexpr size_t kPiece = 1 << 20;
  static constexpr size_t kAlignment = 4096;  // No disk asks for more.

  absl::Status WritePiece() {
    if (pieces_only_ && !direct_) {
      direct_ = ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) | O_DIRECT) == 0;
      pieces_only_ = direct_;
    }
    absl::string_view bytes(piece_.get(), std::exchange(size_, 0));
    if (direct_) {
      const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
      if (n > 0) bytes.remove_prefix(n);
      // A file system may refuse, or end early: Write tells whether it is a real error.
      if (bytes.empty()) return absl::OkStatus();
      UseCache();
      pieces_only_ = false;
    }
    return Write(bytes);
  }
  void UseCache() {
    if (std::exchange(direct_, false)) ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) & ~O_DIRECT);
  }

  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  std::unique_ptr<char, Free> piece_{static_cast<char*>(std::aligned_alloc(kAlignment, kPiece))};
  size_t size_ = 0;          // Bytes in piece_.
  bool pieces_only_ = true;  // All that was written so far; a refusal counts as false.
  bool direct_ = false;
};

template <typename File>
absl::StatusOr<std::unique_ptr<WritableFile>> OpenToWrite(const std::string& path, int flag) {
  RETURN_IF_ERROR(CheckFault("create", path));
  int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flag, 0644);
  if (fd < 0) return ErrnoStatus(errno, "create", path);
  return std::make_unique<File>(path, fd);
}

}  // namespace

absl::StatusOr<std::unique_ptr<WritableFile>> CreateFile(const std::string& path) {
  return OpenToWrite<PosixFile>(path, O_TRUNC);
}

absl::StatusOr<std::unique_ptr<WritableFile>> CreateLargeFile(const std::string& path) {
  return OpenToWrite<LargeFile>(path, O_TRUNC);
}

absl::StatusOr<std::unique_ptr<WritableFile>> AppendToFile(const std::string& path) {
  return OpenToWrite<PosixFile>(path, O_APPEND);
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::string out;
  RETURN_IF_ERROR(ReadFileInPieces(
      path, [&](absl::string_view piece) { out.append(piece.data(), piece.size()); }));
  return out;
}

absl::Status ReadFileInPieces(const std::string& path,
                              const std::function<void(absl::string_view)>& fn) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, "open", path);
  std::string buffer(1 << 20, '\0');
  int error = 0;
  while (true) {
    ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) error = errno;
    if (n <= 0) break;
    fn(absl::string_view(buffer.data(), n));
  }
  ::close(fd);
  return error == 0 ? absl::OkStatus() : ErrnoStatus(error, "read", path);
}

absl::StatusOr<std::unique_ptr<ReadableFile>> ReadableFile::Open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, "open", path);
  struct stat st;
  if (::fstat(fd, &st) != 0) {
    const int error = errno;
    ::close(fd);
    return ErrnoStatus(error, "stat", path);
  }
  return std::unique_ptr<ReadableFile>(new ReadableFile(path, fd, st.st_size));
}

ReadableFile::~ReadableFile() { ::close(fd_); }

absl::Status ReadableFile::ReadAt(int64_t offset, std::span<char> out) const {
  while (!out.empty()) {
    const ssize_t n = ::pread(fd_, out.data(), out.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, "read", path_);
    if (n == 0) return absl::DataLossError(absl::StrCat(path_, ": ends at offset ", offset));
    out = out.subspan(n);
    offset += n;
  }
  return absl::OkStatus();
}

absl::Status WriteFileAtomically(const std::string& path, absl::string_view bytes) {
  std::string temporary = absl::StrCat(path, ".tmp.", ::getpid());
  auto write = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, CreateFile(temporary));
    RETURN_IF_ERROR(file->Append(bytes));
    RETURN_IF_ERROR(file->Close());
    STARLING_SYNC_POINT("file:temporary");
    return RenamePath(temporary, path);
  };
  absl::Status status = write();
  if (!status.ok()) ::unlink(temporary.c_str());
  return status;
}

absl::Status MakeDirs(const std::string& path) {
  RETURN_IF_ERROR(CheckFault("mkdir", path));
  std::vector<std::string> parents;  // Of what is new: each must know its child durably.
  for (std::string dir = path; !dir.empty() && !PathExists(dir); dir = parents.back()) {
    parents.push_back(DirOf(dir));
  }
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return ErrnoStatus(error.value(), "create directory", path);
  if (!std::filesystem::is_directory(path, error))
    return ErrnoStatus(ENOTDIR, "create directory", path);
  for (const std::string& dir : parents) RETURN_IF_ERROR(SyncDir(dir));
  return absl::OkStatus();
}

absl::Status RenamePath(const std::string& from, const std::string& to) {
  RETURN_IF_ERROR(CheckFault("rename", to));
  if (::rename(from.c_str(), to.c_str()) != 0) return ErrnoStatus(errno, "rename to", to);
  STARLING_SYNC_POINT("file:renamed");
  return SyncDir(DirOf(to));
}

absl::Status RemoveAll(const std::string& path) {
  RETURN_IF_ERROR(CheckFault("remove", path));
  std::error_code error;
  std::filesystem::remove_all(path, error);
  return error ? ErrnoStatus(error.value(), "remove", path) : absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ListDir(const std::string& path) {
  DIR* dir = ::opendir(path.c_str());
  if (dir == nullptr) return ErrnoStatus(errno, "list", path);
  std::vector<std::string> names;
  while (dirent* entry = ::readdir(dir)) {
    std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(std::move(name));
  }
  ::closedir(dir);
  std::sort(names.begin(), names.end());
  return names;
}

bool PathExists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

std::string JoinPath(absl::string_view a, absl::string_view b) {
  if (a.empty()) return std::string(b);
  return a.back() == '/' ? absl::StrCat(a, b) : absl::StrCat(a, "/", b);
}

void SetFileFault(FileFault fault) { Fault() = std::move(fault); }

}  // namespace starling
