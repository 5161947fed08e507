// CopyStage: brings the input of steps onto the devices of replicas, on a thread of
// its own and into two buffers by turns: one is filled while replicas compute with
// the other. A step's batch is copied while its rows are being pulled, and rows and parameters
// as soon as they are.
//
// Add, Take and Release: one thread, the pipeline's.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "dense_net/replicas.h"

namespace starling {

class CopyStage {
 public:
  // All that it points to stays until the copy was taken or the stage is gone.
  struct Input {
    int64_t step = 0;
    const Batch* batch = nullptr;
    std::span<const std::span<float>> rows;
    std::span<const float> dense;
    const absl::Notification* pull_done = nullptr;  // Rows and dense are there, or
    const absl::Status* pulled = nullptr;           // why not. Notified sooner or later.
  };

  explicit CopyStage(const Replicas* replicas);
  // Waits for the copy that is under way; others are dropped.
  ~CopyStage();

  void Add(const Input& input);
  // The copy of the oldest input, once it is made.
  absl::StatusOr<Replicas::Buffer*> Take();
  // The buffer taken last may be filled again.
  void Release();

 private:
  static constexpr int kBuffers = 2;

  void Work();
  absl::Status Copy(const Input& input, Replicas::Buffer* buffer) const;
  bool CanCopy() const ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return stop_ || (!inputs_.empty() && made_ - released_ < kBuffers);
  }

  const Replicas* const replicas_;
  std::array<std::unique_ptr<Replicas::Buffer>, kBuffers> buffers_;
  absl::Mutex mu_;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  std::deque<Input> inputs_ ABSL_GUARDED_BY(mu_);
  std::deque<absl::Status> copied_ ABSL_GUARDED_BY(mu_);  // Made, not taken.
  int64_t made_ ABSL_GUARDED_BY(mu_) = 0, taken_ ABSL_GUARDED_BY(mu_) = 0,
                released_ ABSL_GUARDED_BY(mu_) = 0;
  std::thread thread_;  // Last: it uses the others.
};

}  // namespace starling
