// SnapshotQueue: rows that writers copied aside because a snapshot had not
// reached them yet, on their way to its file. Bounded: a writer waits, before
// it takes any lock, while the queue is full.
//
// Thread safety: any method, any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace starling {

class SnapshotQueue {
 public:
  // Rows are taken a block at a time, so that a writer that waits goes on as
  // soon as a block was taken and not when the whole queue was written.
  static constexpr int64_t kBlockBytes = 256 << 10;

  // From here on rows are taken, until Stop; writers wait while there are as
  // many bytes as `bytes_max`.
  void Start(int64_t bytes_max) {
    absl::MutexLock lock(&mu_);
    bytes_max_.store(bytes_max, std::memory_order_relaxed);
    active_ = true;
  }
  void Stop() {
    absl::MutexLock lock(&mu_);
    blocks_.clear();
    spare_.clear();
    size_.store(0, std::memory_order_relaxed);
    active_ = false;
  }
  // `rows` are whole rows as they stand in the slab; about a block at most.
  void Push(absl::string_view rows) {
    const auto bytes = static_cast<int64_t>(rows.size());
    absl::MutexLock lock(&mu_);
    if (!active_) return;
    if (blocks_.empty() || static_cast<int64_t>(blocks_.back().size()) + bytes > kBlockBytes) {
      AddBlock();
    }
    blocks_.back().append(rows.data(), rows.size());
    copied_.fetch_add(bytes, std::memory_order_relaxed);
    size_.fetch_add(bytes, std::memory_order_relaxed);
  }
  // Takes the oldest rows, a block at most, into `out`, whose memory is reused.
  // False, with `out` empty, if there are none.
  bool Take(std::string* out) {
    out->clear();
    absl::MutexLock lock(&mu_);
    if (blocks_.empty()) return false;
    std::swap(blocks_.front(), *out);
    if (static_cast<int64_t>(spare_.size()) * kBlockBytes < bytes_max_) {
      spare_.push_back(std::move(blocks_.front()));
    }
    blocks_.pop_front();
    size_.fetch_sub(static_cast<int64_t>(out->size()), std::memory_order_relaxed);
    return true;
  }
  // REQUIRES: the caller holds no lock of the table.
  void WaitForRoom() {
    if (HasRoom()) return;
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(this, &SnapshotQueue::HasRoom));
  }
  int64_t copied_bytes() const { return copied_.load(std::memory_order_relaxed); }

 private:
  bool HasRoom() const {
    return size_.load(std::memory_order_relaxed) < bytes_max_.load(std::memory_order_relaxed);
  }
  void AddBlock() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    blocks_.emplace_back();
    if (spare_.empty()) return blocks_.back().reserve(kBlockBytes);
    blocks_.back() = std::move(spare_.back());
    spare_.pop_back();
  }

  absl::Mutex mu_;
  std::deque<std::string> blocks_ ABSL_GUARDED_BY(mu_);  // The oldest first.
  std::vector<std::string> spare_ ABSL_GUARDED_BY(mu_);  // Empty, their memory kept.
  bool active_ ABSL_GUARDED_BY(mu_) = false;
  std::atomic<int64_t> bytes_max_{1};
  std::atomic<int64_t> size_{0};
  std::atomic<int64_t> copied_{0};  // Since the table was opened.
};

}  // namespace starling
