// Checkpoint: one atomic cut of everything — tables with optimiser slots,
// counters and admission state, dense parameters, reader position, schedule.
//
// It is a file set (base/file_set.h) `step-%012d` under a root, and exists iff
// its manifest does. Directories without one are what a killed process left;
// they are ignored, and removed when the next checkpoint is complete.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_set.h"
#include "scheduler/checkpoint.pb.h"

namespace starling {

struct Checkpoint {
  std::string dir;
  CheckpointInfo info;
  std::vector<FileSetEntry> files;
};

absl::StatusOr<Checkpoint> OpenCheckpoint(const std::string& dir);

// The newest complete checkpoint under `root`. A damaged one is reported on
// stderr and the one before it taken; DataLoss if all are damaged, NotFound if
// there is none.
absl::StatusOr<Checkpoint> LatestCheckpoint(const std::string& root);

// `path` itself if it is a checkpoint, else the latest under it.
absl::StatusOr<Checkpoint> FindCheckpoint(const std::string& path);

// Writes one: `write_parts` puts the files into the directory it is given. On
// failure nothing complete is harmed and the new directory is removed. Then
// drops all but the `keep` newest complete ones and the one of `protect_step`.
// Returns its directory.
absl::StatusOr<std::string> WriteCheckpoint(
    const std::string& root, const CheckpointInfo& info, int keep, int64_t protect_step,
    const std::function<absl::StatusOr<std::vector<FileSetEntry>>(const std::string& dir)>&
        write_parts);

}  // namespace starling
