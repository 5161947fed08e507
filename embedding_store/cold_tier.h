// ColdTier: the rows that do not fit in memory, in a RocksDB that is scratch.
// It has no WAL, whatever stands in the directory is discarded on open, and the
// directory is removed on destruction. Nothing is opened before the first
// Write, so a table that fits in memory never touches the disk.
//
// Key: big-endian bucket (u16), big-endian id (u64); so its order is that of
// row files. Value: RowMeta, then the row's floats, as they stand in memory.
//
// Thread safety: any method, any thread. A row is written and read under its
// stripe's lock, so the calls for one id never overlap.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "embedding_store/row_layout.h"

namespace starling {

class ColdTier {
 public:
  struct Options {
    std::string dir;
    int64_t block_cache_bytes = 16 << 20;
    int64_t write_buffer_bytes = 8 << 20;  // Two of them at most.
  };
  struct Row {
    uint64_t id;
    const RowMeta* meta;
    std::span<const float> floats;
  };

  explicit ColdTier(const Options& options);
  ~ColdTier();
  ColdTier(const ColdTier&) = delete;
  ColdTier& operator=(const ColdTier&) = delete;

  // All rows in one batch: all of them are stored, or none and the Status
  // names the directory.
  absl::Status Write(std::span<const Row> rows);
  absl::Status Delete(std::span<const uint64_t> ids);

  // Calls visit(i, meta, floats) for every ids[i], in order, with null and
  // nothing if the id is not here: one sorted MultiGet. The row is valid during
  // the call only; the Status of a visit ends the read. If any id cannot be
  // read, none is visited.
  using Visit = std::function<absl::Status(size_t i, const RowMeta*, std::span<const float>)>;
  absl::Status MultiGet(std::span<const uint64_t> ids, const Visit& visit) const;

  // A walk by (bucket, id) over what is here when it is made.
  class Cursor {
   public:
    virtual ~Cursor() = default;
    virtual bool Valid() const = 0;  // False at the end and after an error.
    virtual uint64_t id() const = 0;
    virtual const RowMeta& meta() const = 0;
    virtual std::span<const float> floats() const = 0;
    virtual void Next() = 0;
    virtual absl::Status status() const = 0;
  };
  std::unique_ptr<Cursor> NewCursor() const;

 private:
  struct Db;
  absl::Status Open() ABSL_LOCKS_EXCLUDED(mu_);
  const Db* db() const { return db_.load(std::memory_order_acquire); }

  const Options options_;
  absl::Mutex mu_;  // Held while opening.
  std::unique_ptr<Db> owned_ ABSL_GUARDED_BY(mu_);
  std::atomic<const Db*> db_{nullptr};  // Null until opened.
};

}  // namespace starling
