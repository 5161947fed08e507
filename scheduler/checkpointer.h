// Checkpointer: takes cuts of a store, or of all servers, and writes them as checkpoints in the
// background, full ones and, between them, incremental ones.
//
//   Start    the instant, on the trainer's thread, between two steps
//   Poll     what became of it; never waits
//   Wait     until the one under way is complete, or has failed
//
// The first of a process is full. Each later one holds what changed since the
// last complete one, until a chain is `full_every` long. A failed one leaves
// the earlier ones as they are; the next tries again from the same base.
//
// Not thread-safe: one thread calls it.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "ps/store_cut.h"
#include "scheduler/checkpoint.h"

namespace starling {

class Checkpointer {
 public:
  struct Options {
    std::string root;
    int full_every = 1;                // Longest chain; 1: every one is full.
    int64_t bytes_per_second_max = 0;  // While nobody waits; 0: no limit.
  };
  // `source` must outlive it.
  Checkpointer(const Options& options, CutSource* source);
  ~Checkpointer();  // Waits for the one under way.

  // Takes the cut that `info` describes. REQUIRES: no push or creating pull is
  // under way. An earlier one is waited for, and its error returned instead.
  absl::Status Start(CheckpointInfo info, const Retention& retention);
  // The error of the one that ended since the last call, if it failed.
  absl::Status Poll();
  absl::Status Wait();
  bool writing() const { return thread_.joinable() && !done_.load(); }
  // Directory of the last complete one; "" before the first of this process.
  const std::string& newest() const { return newest_.dir; }

 private:
  // What the next incremental one would be since.
  struct Newest {
    std::string dir;
    uint32_t manifest_crc32c = 0;
    std::vector<uint32_t> epochs;
    int chain = 0;  // Its length; 1: full.
  };
  absl::StatusOr<std::unique_ptr<StoreCut>> StartCut(const std::string& dir, CheckpointInfo* info);
  void Write(const CheckpointInfo& info, const Retention& retention);

  const Options options_;
  CutSource* const source_;
  Newest newest_;

  // The one under way. While thread_ runs, cut_, next_ and status_ are its own.
  std::unique_ptr<StoreCut> cut_;
  Newest next_;
  absl::Status status_;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace starling
