// An EmbeddingTable maps a feature id to one row: [meta | weights | optimizer
// state]. Hot rows live in memory under a budget; the rest, when the tier is
// rocksdb, in a RocksDB that is scratch: it has no WAL and is discarded on
// open. Only a snapshot is truth. With update: dense all rows stay in memory,
// whatever the tier, since every step touches them all.
//
// The table owns all row memory; callers get copies, never row pointers. Calls
// are batches; ids are unique within a call.
//
// An id is unknown (never seen, or not admitted yet), known, or expired: a row
// whose TTL has passed, by the event time given, reads as unknown and starts
// anew if it is created again.
//
// Thread safety: any method, any thread. An id hashes to one stripe and its
// lock, so a batch is atomic per row, not as a whole; Snapshot alone stops
// writers for as long as it takes to copy the rows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "embedding_store/row_layout.h"
#include "embedding_store/row_source.h"
#include "embedding_store/table.pb.h"

namespace starling {

class ThreadPool;

struct TableEnv {
  // For RocksDB; created at the first demotion, and removed on destruction.
  // Unused by tier memory.
  std::string scratch_dir;
  // Large batches are split over it, by stripe; results do not depend on it.
  // Not owned; null: the calling thread does all.
  ThreadPool* pool = nullptr;
};

struct TableStats {
  int64_t rows_memory = 0, rows_cold = 0, bytes_memory = 0;
  int64_t hits_memory = 0, hits_cold = 0, misses = 0;
  int64_t created = 0, refused = 0, expired = 0, demoted = 0, promoted = 0;
};

class EmbeddingTable : public RowSource {
 public:
  static absl::StatusOr<std::unique_ptr<EmbeddingTable>> Open(const TableSpec& spec,
                                                              const TableEnv& env);

  virtual const TableSpec& spec() const = 0;
  virtual const RowLayout& layout() const = 0;

  // As Lookup (of RowSource), but an id that passes admission gets a row.
  // counts[i] impressions are added to its frequency, and event_times[i] moves
  // its event time forward; both may be empty (1, unknown). A refused id reads
  // as zeros. ResourceExhausted if tier is memory and the budget is full.
  virtual absl::Status LookupOrCreate(std::span<const uint64_t> ids,
                                      std::span<const uint32_t> counts,
                                      std::span<const int64_t> event_times,
                                      std::span<float> weights) = 0;
  // One optimiser step per id with grads (ids, width). Unknown ids are
  // skipped. With update: dense every other row takes a step of gradient 0 too,
  // so a step counter (Adam) equals the number of calls; `ids` may be empty.
  virtual absl::Status ApplyGradients(std::span<const uint64_t> ids, std::span<const float> grads,
                                      float lr_scale) = 0;
  // Brings cold rows of `ids` into memory; never reads values, never fails a step.
  virtual void Prefetch(std::span<const uint64_t> ids) = 0;
  virtual absl::Status Erase(std::span<const uint64_t> ids) = 0;

  // Writes all rows, the admission state and the counters as one row file at
  // `path`, durable when it returns. What a failed call leaves is not a row file.
  virtual absl::Status Snapshot(const std::string& path) = 0;
  // Adds the rows of a row file that `keep(id)` accepts: a restore into
  // another number of shards reads every file on every shard.
  // FailedPrecondition, naming what differs, if its layout is not this table's.
  // After DataLoss the table holds a part of the rows: discard it.
  virtual absl::Status Restore(const std::string& path,
                               const std::function<bool(uint64_t)>& keep) = 0;

  // Calls fn(id, meta, weights + state) for every row, by bucket, then id.
  // Stops writers meanwhile; fn must not call this table.
  virtual absl::Status ForEach(
      const std::function<void(uint64_t, const RowMeta&, std::span<const float>)>& fn) const = 0;

  virtual int64_t rows() const = 0;
  virtual TableStats stats() const = 0;
};

}  // namespace starling
