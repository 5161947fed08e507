// CheckpointKeeper: a job's train.checkpoint, followed. When a checkpoint is
// due, and what happens when one cannot be written. `train`, `launch` and
// `online` each have one.
//
// Not thread-safe: one thread calls it.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "scheduler/checkpointer.h"
#include "scheduler/job.pb.h"

namespace starling {

class CheckpointKeeper {
 public:
  // `source` is what is saved; `stop` ends waiting for space. Both outlive it.
  CheckpointKeeper(const CheckpointOptions& options, const std::string& root, CutSource* source,
                   const std::atomic<bool>* stop, std::function<void(absl::string_view)> say);

  // Whether training must come to rest after `step` for a Cut: one is due, or
  // the last one has failed.
  bool Due(int64_t step);
  // At rest. Begins one of this moment, written while training goes on; or, if
  // that or the one before fails, does what on_error says. ok: train on.
  absl::Status Cut(const CheckpointInfo& info, int64_t protect_step = -1);
  // One of this moment, complete on return. What it holds would be lost with
  // the process, so go_on does not pass over its error.
  absl::Status Save(const CheckpointInfo& info, int64_t protect_step = -1);
  // Until the one under way, if any, is complete.
  absl::Status Await();

  // Step of the last one begun, or taken up; -1 if it could not be written.
  int64_t saved_step() const { return saved_step_; }
  void TakenUp(int64_t step);
  // Directory of the last complete one; "" before the first of this process.
  const std::string& newest() const { return checkpointer_.newest(); }
  double seconds() const { return seconds_; }  // That callers spent in here, waiting.

 private:
  int64_t TimesDue(int64_t step) const;
  absl::Status Begin(const CheckpointInfo& info, int64_t protect_step);
  absl::Status SaveWhenPossible(const CheckpointInfo& info, int64_t protect_step,
                                const absl::Status& error);

  const CheckpointOptions options_;
  const std::atomic<bool>* const stop_;
  const std::function<void(absl::string_view)> say_;
  Checkpointer checkpointer_;
  double saved_at_;
  int64_t due_ = 0;  // every_steps has come so often, as of the last one begun.
  int64_t saved_step_ = -1;
  absl::Status failed_;  // Why the last one did, until on_error is followed.
  double seconds_ = 0;
};

}  // namespace starling
