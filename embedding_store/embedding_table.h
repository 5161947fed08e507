// An EmbeddingTable maps a feature id to one row: [meta | weights | optimizer
// state]. Hot rows live in memory under a budget of bytes; the rest, when the
// tier is rocksdb, in a RocksDB that is scratch: it has no WAL and is discarded
// on open. Only a snapshot is truth. With update: dense all rows stay in
// memory, whatever the tier, since every step touches them all.
//
// The table owns all row memory; callers get copies, never row pointers. Calls
// are batches; ids are unique within a call. Ids ordered by (bucket, id), as a
// Batch has them, are served fastest.
//
// An id is
//   unknown   never seen, refused by admission so far, erased or evicted. It
//             reads as zeros and takes no gradient.
//   known     it has a row, in either tier.
//   expired   known, but the event time given is more than the TTL after the
//             row's. LookupOrCreate starts its row anew; other calls, which
//             bring no event time, still see the old row until it is swept.
// Evicted means swept: expired by the latest event time of the last call that
// brought one (so a second pass over old logs finds the clock put back), of a
// norm below evict.norm, or surplus to evict.rows and seldom seen.
// It happens a slice at a time, in ApplyGradients for rows in memory and in the
// background for cold ones, and is no different from Erase: an admitted id
// that is seen again gets a new row at once, unless admit is exact_count.
//
// Thread safety: any method, any thread. An id belongs to one stripe and its
// lock, so a batch is atomic per row, not as a whole. A snapshot sees each
// call as a whole or not at all.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_set.h"
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
  int64_t rows_memory = 0, rows_cold = 0;
  int64_t bytes_memory = 0;  // Index, rows, admission, and RocksDB's caches and buffers.
  int64_t bytes_disk = 0;
  int64_t hits_memory = 0, hits_cold = 0, misses = 0;  // Ids of all calls.
  int64_t created = 0, refused = 0, expired = 0, evicted = 0, erased = 0;
  int64_t demoted = 0, promoted = 0;
  // What the calls wanted of RocksDB, and what it moved for that: their
  // quotients are the read and write amplification.
  int64_t cold_bytes_wanted = 0, cold_bytes_read = 0;
  int64_t cold_bytes_given = 0, cold_bytes_written = 0;
  int64_t snapshot_aside_bytes = 0;  // Copied aside by writers for snapshots.
};

// A snapshot on its way to its files. The table outlives it.
class TableSnapshot {
 public:
  virtual ~TableSnapshot() = default;  // Gives it up, unless Wait has returned.
  // The durable files, named relative to the directory of `path`, in the
  // order in which a restore must read them.
  virtual absl::StatusOr<std::vector<FileSetEntry>> Wait() = 0;
  virtual void Hurry() = 0;  // Somebody waits: from here on without a pace.
  // Rows that change from the snapshot's instant on have this epoch or a later one.
  virtual uint32_t epoch() const = 0;
};

// The file of cold rows stands beside that of the rows in memory.
inline constexpr char kColdSuffix[] = ".cold";

struct SnapshotOptions {
  // 0: all rows. Else only those that changed since the snapshot whose epoch()
  // this was, and tombstones for those that went.
  uint32_t since = 0;
  // Rows that change while it is written are written at once, and the others
  // wait for it. 0: no limit.
  int64_t bytes_per_second_max = 0;
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
  // `places`, one an id or none, receives where the rows are in memory, for ApplyGradients.
  virtual absl::Status LookupOrCreate(std::span<const uint64_t> ids,
                                      std::span<const uint32_t> counts,
                                      std::span<const int64_t> event_times,
                                      std::span<float> weights,
                                      std::span<uint32_t> places = {}) = 0;
  // One optimiser step per id with grads (ids, width). Unknown ids are
  // skipped. With update: dense every other row takes a step of gradient 0 too,
  // so a step counter (Adam) equals the number of calls; `ids` may be empty.
  // An error (cold rows that cannot be read, a disk without room for those that
  // must make place) ends the call row by row: each took its step as a whole or
  // not at all, and none is lost that can be read. Which ones did is not told, so
  // the call must not be repeated: who needs all of it goes back to a snapshot.
  // `places`, as a LookupOrCreate of the same ids left them, spare the search; what has moved or
  // gone since is searched for, so that they change nothing but the time.
  virtual absl::Status ApplyGradients(std::span<const uint64_t> ids, std::span<const float> grads,
                                      float lr_scale, std::span<const uint32_t> places = {}) = 0;
  // Adds deltas (ids, width) to the weights as they are. Unknown ids are
  // skipped. An error is as that of ApplyGradients.
  virtual absl::Status ApplyDeltas(std::span<const uint64_t> ids,
                                   std::span<const float> deltas) = 0;
  // Brings cold rows of `ids` into memory; never reads values, never fails a step.
  virtual void Prefetch(std::span<const uint64_t> ids) = 0;
  // Removes rows from both tiers; unknown ids are passed over.
  virtual absl::Status Erase(std::span<const uint64_t> ids) = 0;

  // Takes the instant, and writes the rows of that instant in the background:
  // those in memory to a row file at `path` with the admission state and the
  // counters, those only in the cold tier, and tombstones, to `path` + kColdSuffix.
  // Calls go on meanwhile. One snapshot at a time: FailedPrecondition; the
  // same if `since` lies too far back for the tombstones that are kept.
  virtual absl::StatusOr<std::unique_ptr<TableSnapshot>> StartSnapshot(
      const std::string& path, const SnapshotOptions& options) = 0;
  // A full one, awaited. What a failed call leaves is not a row file.
  absl::StatusOr<std::vector<FileSetEntry>> Snapshot(const std::string& path);
  // Tombstones from before `epoch` will not be asked for again.
  virtual void DropTombstones(uint32_t epoch) = 0;
  // Takes in one file of a snapshot: sets the rows that `keep(id)` accepts, asked
  // by several threads at once. A restore into another number of shards reads every file on every
  // shard. An incremental snapshot is restored over the one it is since: of that one take kRows,
  // since its admission state and counters are outdated. FailedPrecondition, naming what differs,
  // if its layout is not this table's. DataLoss if it is damaged or, with `crc32c`, another file
  // than that of the manifest: every byte is checked on the way, so none needs to be read before.
  // After an error the table holds a part of the rows: discard it.
  enum class Take { kAll, kRows };
  virtual absl::Status Restore(const std::string& path, const std::function<bool(uint64_t)>& keep,
                               Take take = Take::kAll,
                               std::optional<uint32_t> crc32c = std::nullopt) = 0;

  // Calls fn(id, meta, weights + state) for every row, by bucket, then id.
  // Stops writers meanwhile; fn must not call this table.
  virtual absl::Status ForEach(
      const std::function<void(uint64_t, const RowMeta&, std::span<const float>)>& fn) const = 0;

  virtual int64_t rows() const = 0;
  virtual TableStats stats() const = 0;

 protected:
  // InvalidArgument, naming the table, unless there are `width` floats an id.
  absl::Status CheckSizes(size_t ids, size_t floats) const;
  // Of what comes beside ids, one each or none.
  static absl::Status CheckLengths(size_t ids, std::initializer_list<size_t> others);
};

}  // namespace starling
