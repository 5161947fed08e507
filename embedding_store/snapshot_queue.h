// SnapshotQueue: rows that writers copied aside because a snapshot had not
// reached them yet, on their way to its file. Bounded: a writer waits, before
// it takes any lock, while the queue is full.
//
// Thread safety: any method, any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "embedding_store/row_block.h"

namespace starling {

class SnapshotQueue {
 public:
  // From here on blocks are taken, until Stop; writers wait while they hold as
  // many bytes as `bytes_max`.
  void Start(int64_t bytes_max) {
    absl::MutexLock lock(&mu_);
    bytes_max_.store(bytes_max, std::memory_order_relaxed);
    active_ = true;
  }
  void Stop() {
    std::deque<RowBlock> blocks;
    std::vector<RowBlock> spare;  // Freed without the lock: that takes its time.
    absl::MutexLock lock(&mu_);
    std::swap(blocks, blocks_);
    std::swap(spare, spare_);
    size_.store(0, std::memory_order_relaxed);
    active_ = false;
  }
  // Takes the rows of `block`, which is an empty one afterwards, or none at all
  // if there is no spare one.
  void Push(RowBlock* block) {
    const auto bytes = static_cast<int64_t>(block->bytes().size());
    RowBlock next;
    absl::MutexLock lock(&mu_);
    if (active_ && bytes > 0) {
      blocks_.push_back(std::move(*block));
      copied_.fetch_add(bytes, std::memory_order_relaxed);
      size_.fetch_add(bytes, std::memory_order_relaxed);
    }
    if (!spare_.empty()) {
      next = std::move(spare_.back());
      spare_.pop_back();
    }
    *block = std::move(next);
  }
  // Takes the oldest block; the memory of the one `out` holds is used again.
  // False, with `out` empty, if there is none.
  bool Take(RowBlock* out) {
    out->Clear();
    absl::MutexLock lock(&mu_);
    if (blocks_.empty()) return false;
    if (!out->full()) spare_.push_back(std::move(*out));  // Else it is none at all.
    *out = std::move(blocks_.front());
    blocks_.pop_front();
    size_.fetch_sub(static_cast<int64_t>(out->bytes().size()), std::memory_order_relaxed);
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

  absl::Mutex mu_;
  std::deque<RowBlock> blocks_ ABSL_GUARDED_BY(mu_);  // The oldest first.
  std::vector<RowBlock> spare_ ABSL_GUARDED_BY(mu_);  // Empty, their memory kept.
  bool active_ ABSL_GUARDED_BY(mu_) = false;
  std::atomic<int64_t> bytes_max_{1};
  std::atomic<int64_t> size_{0};
  std::atomic<int64_t> copied_{0};  // Since the table was opened.
};

}  // namespace starling
