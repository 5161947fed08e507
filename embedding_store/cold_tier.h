// ColdTier: the rows that do not fit in memory, in a RocksDB that is scratch.
// It has no WAL, whatever stands in the directory is discarded on open, and the
// directory is removed on destruction. Nothing is opened before the first
// Write, so a table that fits in memory never touches the disk. A directory
// that another table uses, in this process or another, is refused.
//
// Key: big-endian bucket (u16), big-endian id (u64); so its order is that of
// row files. Value: a row as it stands in memory, without its id.
//
// A read of many rows goes through one thread, or the pool it is given, as long
// as the page cache answers. Where the disk does, one read takes a hundred
// times as long and the disk serves many at once: so threads that belong to
// the tier, started then, wait for it side by side.
//
// Thread safety: any method, any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/thread_pool.h"
#include "embedding_store/row_slab.h"

namespace starling {

// Rows read from the cold tier, in the order they were asked for.
class ColdRows {
 public:
  // Null if the id is not there. Valid until the next MultiGet into this.
  const RowHeader* row(size_t i) const {
    return found_[i] ? reinterpret_cast<const RowHeader*>(&bytes_[i * stride_]) : nullptr;
  }
  size_t size() const { return found_.size(); }

 private:
  friend class ColdTier;
  size_t stride_ = 0;
  std::vector<char> bytes_;
  std::vector<uint8_t> found_;
};

struct ColdStats {
  int64_t bytes_disk = 0, bytes_memory = 0;   // Files; block cache and write buffers.
  int64_t rows_read = 0, rows_written = 0;    // By calls of this class.
  int64_t bytes_read = 0, bytes_written = 0;  // By RocksDB, compactions included.
};

class ColdTier {
 public:
  struct Options {
    std::string dir;
    int64_t body_bytes = 0;    // Of a row.
    int64_t memory_bytes = 0;  // For caches and buffers; at least kMemoryMin.
  };
  static constexpr int64_t kMemoryMin = 192 << 10;

  explicit ColdTier(const Options& options);
  ~ColdTier();
  ColdTier(const ColdTier&) = delete;
  ColdTier& operator=(const ColdTier&) = delete;

  // `rows` are whole rows of a slab, one behind the other. All of them are
  // stored, or none and the Status names the directory.
  absl::Status Write(std::span<const char> rows);
  absl::Status Delete(std::span<const uint64_t> ids);

  // Sorted reads of all `ids`. If any id cannot be read, none is.
  absl::Status MultiGet(std::span<const uint64_t> ids, ColdRows* rows,
                        ThreadPool* pool = nullptr) const;

  // The state at one instant; rows written later are not in it.
  class View;
  std::shared_ptr<View> NewView() const;

  // A walk by (bucket, id) over a view, or over what is here now (null).
  // Rows whose epoch is below `epoch_min` may be left out: whole files of such
  // rows are not read.
  class Cursor {
   public:
    virtual ~Cursor() = default;
    virtual bool Valid() const = 0;            // False at the end and after an error.
    virtual const RowHeader& row() const = 0;  // Body included.
    virtual void Next() = 0;
    virtual absl::Status status() const = 0;
  };
  std::unique_ptr<Cursor> NewCursor(std::shared_ptr<View> view, uint32_t epoch_min = 0,
                                    uint64_t from_id = 0, uint32_t from_bucket = 0) const;

  ColdStats stats() const;

 private:
  struct Db;
  absl::Status Open() ABSL_LOCKS_EXCLUDED(mu_);
  const Db* db() const { return db_.load(std::memory_order_acquire); }
  // Reads ids[begin, end) into their places.
  absl::Status ReadRun(std::span<const uint64_t> ids, size_t begin, size_t end,
                       ColdRows* rows) const;
  ThreadPool* Readers() const;

  const Options options_;
  absl::Mutex mu_;  // Held while opening.
  std::unique_ptr<Db> owned_ ABSL_GUARDED_BY(mu_);
  std::atomic<const Db*> db_{nullptr};  // Null until opened.
  mutable std::atomic<int64_t> rows_read_{0}, rows_written_{0};
  mutable std::atomic<bool> on_disk_{false};  // The latest reads had to wait for the disk.
  mutable std::once_flag readers_once_;
  mutable std::unique_ptr<ThreadPool> readers_;
};

}  // namespace starling
