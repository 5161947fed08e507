// ScratchLock: one owner per scratch directory. Who opens a cold tier discards
// what stands in its directory, so a second process that was given the same
// one by mistake must be stopped before, not after.
//
// The lock is on the file <dir>.lock, beside the directory; it ends with the
// process, however that ends, so a killed one locks nobody out.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace starling {

class ScratchLock {
 public:
  // FailedPrecondition, naming the directory and the owner's pid, if it is taken.
  static absl::StatusOr<std::unique_ptr<ScratchLock>> Take(const std::string& dir);
  ~ScratchLock();  // Removes the file.
  ScratchLock(const ScratchLock&) = delete;
  ScratchLock& operator=(const ScratchLock&) = delete;

 private:
  ScratchLock(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  const std::string path_;
  const int fd_;
};

}  // namespace starling
