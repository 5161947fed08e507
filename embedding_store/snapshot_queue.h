// SnapshotQueue: rows that writers copied aside because a snapshot had not
// reached them yet, on their way to its file. Bounded: a writer waits, before
// it takes any lock, while the queue is full.
//
// Thread safety: any method, any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace starling {

class SnapshotQueue {
 public:
  static constexpr int64_t kBytesMax = 64 << 20;

  // From here on rows are taken, until Stop.
  void Start() {
    absl::MutexLock lock(&mu_);
    rows_.clear();
    active_ = true;
  }
  void Stop() {
    absl::MutexLock lock(&mu_);
    rows_.clear();
    size_.store(0, std::memory_order_relaxed);
    active_ = false;
  }
  // `row` is a row's bytes as they stand in the slab.
  void Push(const char* row, int64_t bytes) {
    absl::MutexLock lock(&mu_);
    if (!active_) return;
    rows_.append(row, bytes);
    copied_.fetch_add(bytes, std::memory_order_relaxed);
    size_.store(static_cast<int64_t>(rows_.size()), std::memory_order_relaxed);
  }
  // Takes all rows; `out` is cleared first, and its memory is reused.
  void Take(std::string* out) {
    out->clear();
    absl::MutexLock lock(&mu_);
    rows_.swap(*out);
    size_.store(0, std::memory_order_relaxed);
  }
  // REQUIRES: the caller holds no lock of the table.
  void WaitForRoom() {
    if (size_.load(std::memory_order_relaxed) < kBytesMax) return;
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(
        +[](SnapshotQueue* q) { return q->size_.load(std::memory_order_relaxed) < kBytesMax; },
        this));
  }
  int64_t copied_bytes() const { return copied_.load(std::memory_order_relaxed); }

 private:
  absl::Mutex mu_;
  std::string rows_ ABSL_GUARDED_BY(mu_);
  bool active_ ABSL_GUARDED_BY(mu_) = false;
  std::atomic<int64_t> size_{0};
  std::atomic<int64_t> copied_{0};  // Since the table was opened.
};

}  // namespace starling
