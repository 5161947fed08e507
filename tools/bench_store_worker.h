// The training loop of `bench store`'s cold case, in this process or in one of
// its own: a memory cgroup counts a whole process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/thread_pool.h"
#include "tools/bench_child.h"
#include "tools/bench_store.h"

namespace starling {

struct LoopSize {
  int64_t rows = 20'000'000;
  int samples = 4096;  // Of a batch; 26 draws each.
  // What the rows' frequencies tell: the table has trained on so many samples before.
  double history = 100e6;
  int warm = 120;    // Batches before the first that is measured, without the computing.
  int batches = 10;  // Of one measurement.
};
// Of a DeepFM 400x3 on 26 x 16 + 13 inputs, forward and backward, a sample.
inline constexpr double kLoopFlops = 6.0 * (429 * 400 + 400 * 400 + 400 * 400 + 400);

// What a run of some batches saw. Plain bytes: it goes through a pipe.
struct LoopRun {
  double seconds = 0;
  int64_t samples = 0, ids = 0, draws = 0;
  int64_t rows_fetched = 0;  // From RocksDB, ahead or at the call.
  int64_t disk_bytes = 0;
  double draws_cold = 0;  // Only from HitRates.
};

// Looks up, computes and applies, batch after batch by Zipf's law, while a
// second thread prefetches some batches ahead.
class TrainLoop {
 public:
  // A table of all rows; in memory alone if `memory` is 0.
  static absl::StatusOr<std::unique_ptr<TrainLoop>> Create(const LoopSize& size, int64_t memory,
                                                           const std::string& scratch_dir);
  // The next `batches` batches.
  absl::StatusOr<LoopRun> Run(int batches);
  // The same without haste: each batch is prefetched by groups of equal count, to tell how many
  // draws, and how many ids, did not find their row in memory.
  absl::StatusOr<LoopRun> HitRates(int batches);
  TableStats stats() const { return table_->stats(); }

 private:
  TrainLoop(const LoopSize& size, std::unique_ptr<EmbeddingTable> table)
      : size_(size), table_(std::move(table)), pool_(0) {}
  // What filling and warming left to RocksDB's threads is no part of the loop.
  void AwaitCompactions() const;
  IdBatch BatchOf(int64_t number) const;
  absl::Status Update(const IdBatch& batch, double flops);

  const LoopSize size_;
  const std::unique_ptr<EmbeddingTable> table_;
  ThreadPool pool_;
  int64_t next_ = 0;        // Batch.
  int64_t prefetched_ = 0;  // Batches.
  std::vector<float> weights_, grads_;
};

// A TrainLoop in a child process.
class LoopWorker {
 public:
  // REQUIRES: this process has no other thread yet.
  static absl::StatusOr<std::unique_ptr<LoopWorker>> Start();

  // Joins the memory cgroup at `group`, unless empty, before it makes the table.
  absl::Status Create(const LoopSize& size, int64_t memory, const std::string& scratch_dir,
                      const std::string& group);
  absl::StatusOr<LoopRun> Run(int batches);
  absl::StatusOr<LoopRun> HitRates(int batches);

 private:
  struct Command {
    enum Kind { kCreate, kRun, kHitRates } kind;
    LoopSize size = {};
    int64_t memory = 0;
    int batches = 0;
    CommandPath scratch_dir = {}, group = {};
  };
  using Child = BenchChild<Command, LoopRun>;
  explicit LoopWorker(Child child) : child_(std::move(child)) {}
  Child child_;
};

}  // namespace starling
