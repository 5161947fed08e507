// Checkpoint: one atomic cut of everything — tables with optimiser slots,
// counters and admission state, dense parameters, reader position, schedule.
//
// It is a file set (base/file_set.h) `step-%012d` under a root, and exists iff
// its manifest does. Directories without one are what a killed process left;
// they are ignored, and removed when the next checkpoint is complete.
//
// An incremental one holds the rows that changed since its base, a checkpoint
// beside it, and rests on that: it names it and its manifest's checksum, so
// that it is never read over anything else. scheduler/checkpointer.h decides
// when to write which.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_set.h"
#include "ps/parameter_store.h"
#include "scheduler/checkpoint.pb.h"

namespace starling {

struct Checkpoint {
  std::string dir;
  CheckpointInfo info;
  // A full cut and those over it, oldest first; the last is this one's own.
  std::vector<StoredCut> chain;
};

// Checks what OpenFileSet does, for it and for all that it rests on.
absl::StatusOr<Checkpoint> OpenCheckpoint(const std::string& dir);
// Compares every byte with the manifests. DataLoss, naming the file.
absl::Status VerifyCheckpoint(const Checkpoint& checkpoint);

// What is done with a checkpoint that was found: VerifyCheckpoint, or a load, which checks every
// byte on its way, so that none is read twice. If it fails it may be called again with an
// older one, and must then begin anew: nothing of the damaged one may be left.
using CheckpointTaker = std::function<absl::Status(const Checkpoint&)>;

// The newest complete checkpoint under `root` that can be taken. A damaged one is
// reported on stderr and the one before it taken; DataLoss if all are damaged,
// NotFound if there is none. If `take` fails with one that is whole, its error.
absl::StatusOr<Checkpoint> LatestCheckpoint(const std::string& root,
                                            const CheckpointTaker& take = VerifyCheckpoint);
// The same for a run that begins there; none is no error. AlreadyExists if there is one
// and the run does not resume: its checkpoints would be mixed with those. Nothing is taken then.
absl::StatusOr<std::optional<Checkpoint>> CheckpointToResume(
    const std::string& root, bool resume, const CheckpointTaker& take = VerifyCheckpoint);

// `path` itself if it is a checkpoint, taken; else the latest under it.
absl::StatusOr<Checkpoint> FindCheckpoint(const std::string& path, const CheckpointTaker& take);

// An empty directory for a checkpoint of this step.
absl::StatusOr<std::string> NewCheckpointDir(const std::string& root, int64_t step);

// What stays when a new one is complete: the `keep` newest, that of
// `protect_step`, and all that these rest on.
struct Retention {
  int keep = 3;
  int64_t protect_step = -1;
};
using PartWriter = std::function<absl::StatusOr<std::vector<FileSetEntry>>()>;
// Makes the checkpoint in `dir` exist once `write_parts` has put its files
// there, then removes old ones. On failure nothing complete is harmed and
// `dir` is removed.
absl::Status FinishCheckpoint(const std::string& dir, const CheckpointInfo& info,
                              const Retention& retention, const PartWriter& write_parts);

}  // namespace starling
