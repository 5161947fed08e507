// What the parts of one EmbeddingTable share: its stripes, its snapshot and
// its keeper thread. Internal to the table.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "embedding_store/cold_tier.h"
#include "embedding_store/embedding_table.h"
#include "embedding_store/page_arena.h"
#include "embedding_store/row_layout.h"
#include "embedding_store/snapshot_queue.h"

namespace starling {

// Time that calls may spend on making pages huge, a small part of their own. A page is a copy of
// 2 MiB: a third of a millisecond, or ten times that where a host has to give the memory first.
// Thread safety: any thread.
class HugePageTime {
 public:
  // A call took so long, and made rows or not.
  void Earn(int64_t call_ns, bool made_rows) {
    const int64_t ns = ns_.load(std::memory_order_relaxed);
    if (ns < kMostNs) ns_ += call_ns / (made_rows ? kPartOfGrowth : kPart);
  }
  bool left() const { return ns_.load(std::memory_order_relaxed) > 0; }
  void Spend(int64_t ns) { ns_ -= ns; }

 private:
  static constexpr int64_t kPart = 4, kPartOfGrowth = 32, kMostNs = 10'000'000;
  std::atomic<int64_t> ns_{0};
};

// Constant after Open but for the atomics.
struct TableCore {
  TableSpec spec;
  RowLayout layout;
  uint64_t seed = 0;
  bool dense = false;    // update: dense.
  double ttl = 0;        // Seconds; 0: rows never expire.
  int64_t rows_max = 0;  // 0: no cap.
  double norm_min = 0;   // Rows of a smaller norm are evicted; 0: none is.
  int64_t budget = 0;    // For index, rows and admission: what else the table needs is taken off.
  int64_t share = 0;     // The part of the budget that a stripe expects to use.
  int stripe_bits = 0;   // Of a bucket: the first ones name the stripe.
  int64_t aside_bytes = 0;                      // Of rows copied aside for a snapshot, and
  int64_t aside_block_bytes = 0;                // of those among them that a stripe collects.
  size_t tombstones_max = 0;                    // Per stripe.
  int64_t admission_bytes = 0;                  // Per stripe, at most.
  std::unique_ptr<PageArena> arena;             // Of index and rows.
  int64_t index_reserve = 0, rows_reserve = 0;  // Address space of a stripe.
  std::unique_ptr<ColdTier> cold;               // Null: all rows stay in memory.

  std::atomic<int64_t> bytes{0};  // Committed by all stripes; stays within the budget.
  std::atomic<uint32_t> epoch{1};
  std::atomic<int64_t> event_time{0};   // The latest of the last call that brought one.
  std::atomic<bool> demote_due{false};  // Stripes ran short of free rows: the keeper looks.
  HugePageTime huge_time;
  SnapshotQueue aside;  // Rows copied aside for the snapshot under way.

  bool evicts() const { return ttl > 0 || rows_max > 0 || norm_min > 0; }
};

// Checks the spec and divides its memory. InvalidArgument if it does not fit.
absl::StatusOr<std::unique_ptr<TableCore>> MakeTableCore(const TableSpec& spec,
                                                         const TableEnv& env);

// One batch call, as all its stripes see it.
struct TableCall {
  enum Kind { kLookup, kCreate, kGradients, kDeltas, kPrefetch };
  Kind kind = kLookup;
  std::span<const uint64_t> ids;
  std::span<const uint32_t> counts;      // kCreate; may be empty.
  std::span<const int64_t> event_times;  // kCreate; may be empty.
  std::span<float> weights;              // kLookup, kCreate: (ids, width).
  std::span<const float> grads;          // kGradients, kDeltas: (ids, width).
  float lr_scale = 1;
  std::span<uint32_t> places_out;    // kCreate: RowSlab's places of the rows; may be empty.
  std::span<const uint32_t> places;  // kGradients: where rows are looked for first; may be empty.

  uint32_t count(uint32_t p) const { return counts.empty() ? 1 : counts[p]; }
  int64_t event_time(uint32_t p) const { return event_times.empty() ? 0 : event_times[p]; }
};

// The part of a call that belongs to one stripe. ids[k] stands at positions[k]
// of the call or, where positions is empty, at first + k.
struct StripePart {
  uint32_t first = 0;
  std::span<const uint64_t> ids;
  std::span<const uint32_t> positions;
  uint32_t position(size_t k) const {
    return positions.empty() ? first + static_cast<uint32_t>(k) : positions[k];
  }
};

// An id of a call that was not in memory, and the version its place in the
// stripe had then: if it has the same still, the id has not been demoted since.
struct Missed {
  uint32_t position;
  uint32_t version;
};

}  // namespace starling
