// TableStripe: one of the 64 parts of an EmbeddingTable, with its own lock,
// index, rows and clock hand. It does what the table promises for the ids of
// its buckets; the table only splits batches and joins results.
//
// When the stripe's share of the budget is used up, a slice of rows that were
// not touched lately (CLOCK) is written to the cold tier in one batch and only
// then leaves memory, in the calling thread: a failed write loses nothing. A
// row that is accessed comes back; its cold copy stays behind, outdated, and is
// overwritten by the next demotion.
//
// Thread safety: any method, any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/hash.h"
#include "embedding_store/admission.h"
#include "embedding_store/bucket_index.h"
#include "embedding_store/cold_tier.h"
#include "embedding_store/embedding_table.h"
#include "embedding_store/row_file.h"
#include "embedding_store/row_slab.h"

namespace starling {

// Buckets go round over the stripes: servers own runs of buckets, and so each
// of them uses all its stripes and their share of the budget.
inline constexpr uint32_t kStripes = 64;
inline constexpr uint32_t kBucketsPerStripe = kBuckets / kStripes;
inline uint32_t StripeOf(uint64_t id) { return BucketOf(id) % kStripes; }

// What the stripes of a table share. Constant after Open but for the atomics.
struct TableCore {
  TableSpec spec;
  RowLayout layout;
  uint64_t seed = 0;
  double ttl = 0;      // Seconds; 0: rows never expire.
  bool dense = false;  // update: dense.
  int64_t budget = 0;
  uint32_t chunk_rows = 0;
  int64_t admission_bytes = 0;     // Per stripe, at most.
  std::unique_ptr<ColdTier> cold;  // Null: all rows stay in memory.
  std::atomic<int64_t> bytes{0};   // Of all stripes.
  std::atomic<uint32_t> epoch{1};
};

// The part of a batch that belongs to one stripe: ids[positions[k]].
struct StripeBatch {
  std::span<const uint64_t> ids;
  std::span<const uint32_t> positions;
};

class TableStripe {
 public:
  using RowFn = std::function<absl::Status(uint64_t, const RowMeta&, std::span<const float>)>;

  explicit TableStripe(TableCore* core);

  // As EmbeddingTable's; spans are those of the whole batch.
  absl::Status Lookup(const StripeBatch& batch, std::span<float> weights);
  absl::Status LookupOrCreate(const StripeBatch& batch, std::span<const uint32_t> counts,
                              std::span<const int64_t> event_times, std::span<float> weights);
  absl::Status ApplyGradients(const StripeBatch& batch, std::span<const float> grads,
                              float lr_scale);
  absl::Status Prefetch(const StripeBatch& batch);
  absl::Status Erase(const StripeBatch& batch);
  // Sets or, for a tombstone, removes one row.
  absl::Status Put(const RowRecord& record);

  // The memory rows by bucket, for EmitBucket while no writer runs.
  struct Order {
    std::array<uint32_t, kBucketsPerStripe + 1> offsets;
    std::vector<uint32_t> slots;
  };
  Order OrderByBucket();
  // Calls fn for every row of `bucket` by id, memory and cold merged. `cold`
  // stands at the first cold row of the bucket or behind it, and is left
  // behind the bucket.
  absl::Status EmitBucket(uint32_t bucket, const Order& order, ColdTier::Cursor* cold,
                          const RowFn& fn);

  absl::Status MergeAdmission(absl::string_view state);
  void AppendAdmission(std::string* out);
  uint64_t steps();
  void RaiseSteps(uint64_t steps);  // To at least `steps`.
  void AddStats(TableStats* stats);

 private:
  using Row = RowSlab::Row;

  // Fills slots_, and missed_ with the positions of ids not in memory.
  void Find(const StripeBatch& batch, int floats) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Visits ids[p] for every p of missed_, from the cold tier; null: not there.
  using Visit = std::function<absl::Status(uint32_t p, const RowMeta*, std::span<const float>)>;
  absl::Status VisitMissed(std::span<const uint64_t> ids, const Visit& visit)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<uint32_t> NewSlot(uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status MakeRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Demote() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<uint32_t> Promote(uint64_t id, const RowMeta& meta, std::span<const float> floats)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void InitSlot(uint32_t slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Touch(uint32_t slot, uint32_t count, int64_t event_time) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Step(uint32_t slot, std::span<const float> grad, float lr_scale)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void StepOthers(float lr_scale) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FreeSlot(uint32_t slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // A slot for an id that was seen and has no live row; kNone if it is refused.
  // `cold` says that the cold tier holds an expired row of it.
  absl::StatusOr<uint32_t> Admit(uint64_t id, uint32_t count, bool cold)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The same for an expired row in memory.
  absl::StatusOr<uint32_t> Renew(uint32_t slot, uint32_t count) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool Expired(const RowMeta& meta, int64_t event_time) const;
  int64_t bytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  TableCore& core_;
  absl::Mutex mu_;
  BucketIndex index_ ABSL_GUARDED_BY(mu_);
  RowSlab rows_ ABSL_GUARDED_BY(mu_);
  AdmissionFilter admission_ ABSL_GUARDED_BY(mu_);
  uint32_t hand_ ABSL_GUARDED_BY(mu_) = 0;             // Of the clock: the next slot to look at.
  int64_t rows_cold_ ABSL_GUARDED_BY(mu_) = 0;         // Rows that are in the cold tier alone.
  uint64_t steps_ ABSL_GUARDED_BY(mu_) = 0;            // ApplyGradients calls, with update: dense.
  TableStats stats_ ABSL_GUARDED_BY(mu_);              // Counters only.
  std::vector<uint32_t> slots_ ABSL_GUARDED_BY(mu_);   // Scratch of the call under way.
  std::vector<uint32_t> missed_ ABSL_GUARDED_BY(mu_);  // Scratch of the call under way.
};

}  // namespace starling
