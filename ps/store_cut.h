// A cut: what stores held at one instant, on its way to the files of a
// checkpoint. A CutSource is what cuts are taken of: one store in this process
// (ps/parameter_store.h), or all servers of a job (ps/parameter_client.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_set.h"

namespace starling {

// The source outlives it.
class StoreCut {
 public:
  virtual ~StoreCut() = default;  // Gives it up, unless Wait has returned.
  // Somebody waits: from here on without a pace. Any thread.
  virtual void Hurry() = 0;
  // The entries for the manifest, once all files are durable. When it returns,
  // nothing writes to the directory any more, whatever failed.
  virtual absl::StatusOr<std::vector<FileSetEntry>> Wait() = 0;
  // Where an incremental cut that follows this one begins, by table (and server).
  virtual const std::vector<uint32_t>& epochs() const = 0;
};

struct CutOptions {
  // Empty: all rows. Else the epochs() of an earlier cut of this source: only
  // rows that changed since, and tombstones.
  std::vector<uint32_t> since;
  int64_t bytes_per_second_max = 0;  // Of rows, all tables together, by server; 0: no limit.
};

// A directory with the files of a cut.
struct StoredCut {
  std::string dir;
  std::vector<FileSetEntry> files;
};

class CutSource {
 public:
  virtual ~CutSource() = default;
  // Takes the instant, and writes the parts of a checkpoint into `dir` while
  // calls go on. One at a time. REQUIRES: no push and no creating pull is under
  // way, or it is not one instant. FailedPrecondition if too many rows went
  // since `since`: take a full one.
  virtual absl::StatusOr<std::unique_ptr<StoreCut>> StartCut(const std::string& dir,
                                                             const CutOptions& options) = 0;
  // A checkpoint holds the cut of these epochs: no later cut will be since an earlier one.
  virtual void ForgetBefore(const std::vector<uint32_t>& epochs) = 0;
  // A full one, awaited.
  absl::StatusOr<std::vector<FileSetEntry>> Save(const std::string& dir);
};

}  // namespace starling
