#include "embedding_store/cold_tier.h"

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/options.h>
#include <rocksdb/perf_level.h>
#include <rocksdb/statistics.h>
#include <rocksdb/table.h>
#include <rocksdb/table_properties.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/status.h"
#include "base/sync_point.h"
#include "embedding_store/scratch_lock.h"

namespace starling {
namespace {

constexpr size_t kKeyBytes = sizeof(uint16_t) + sizeof(uint64_t);
// A value is a row without its id, which the key has.
constexpr size_t kIdAt = offsetof(RowHeader, id);
constexpr size_t kIdBytes = sizeof(uint64_t);
constexpr size_t kReadRows = 32;  // Of one RocksDB call, which does not take more at a time.
constexpr int64_t kReadersMax = 16;
constexpr uint64_t kBlockBytes = 4096;
using Key = std::array<char, kKeyBytes>;

Key KeyAt(uint32_t bucket, uint64_t id) {
  Key key;
  const uint16_t big_bucket = __builtin_bswap16(static_cast<uint16_t>(bucket));
  const uint64_t big_id = __builtin_bswap64(id);
  std::memcpy(key.data(), &big_bucket, sizeof(big_bucket));
  std::memcpy(key.data() + sizeof(big_bucket), &big_id, sizeof(big_id));
  return key;
}
Key KeyOf(uint64_t id) { return KeyAt(BucketOf(id), id); }
rocksdb::Slice SliceOf(const Key& key) { return {key.data(), key.size()}; }

uint64_t IdOf(const rocksdb::Slice& key) {
  uint64_t swapped;
  std::memcpy(&swapped, key.data() + sizeof(uint16_t), sizeof(swapped));
  return __builtin_bswap64(swapped);
}

int64_t CacheBytes(int64_t memory_bytes) { return memory_bytes * 5 / 8; }

// A file has one index and one filter, which are found without a search but come into the cache as
// a whole. They are about a thirtieth of the file at most, so that the cache holds those of many.
// A table of ten times its memory has some sixty files, which all stay open.
int64_t FileBytes(int64_t memory_bytes) { return std::max<int64_t>(memory_bytes, 1 << 20); }

// By this thread, so far: what the page cache answers does not count.
constexpr int64_t kDiskBlockBytes = 512;
int64_t DiskBlocksRead() {
  rusage usage = {};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_inblock;
}

// Puts key and value together again as a row.
void ReadRow(uint64_t id, const rocksdb::Slice& value, size_t stride, char* row) {
  const size_t size = std::min(value.size(), stride - kIdBytes);
  std::memcpy(row, value.data(), std::min(size, kIdAt));
  std::memcpy(row + kIdAt, &id, kIdBytes);
  if (size > kIdAt) std::memcpy(row + kIdAt + kIdBytes, value.data() + kIdAt, size - kIdAt);
}

absl::Status WithAdvice(const absl::Status& status) {
  if (!absl::IsResourceExhausted(status)) return status;
  return absl::ResourceExhaustedError(
      absl::StrCat(status.message(), "; free some disk space or raise the table's memory"));
}

absl::Status FromRocks(const rocksdb::Status& status, const std::string& dir) {
  if (status.ok()) return absl::OkStatus();
  std::string message = absl::StrCat(dir, ": cold tier: ", status.ToString());
  // A write that waited for a flush which failed is "incomplete", with the flush's error as text.
  if (status.IsNoSpace() || absl::StrContains(message, "No space left on device")) {
    return WithAdvice(absl::ResourceExhaustedError(message));
  }
  if (status.IsCorruption()) return absl::DataLossError(message);
  return absl::UnavailableError(message);
}

// ---- The largest epoch in a file, so that an incremental cut can pass over it ----

constexpr char kEpochProperty[] = "starling.epoch_max";

class EpochCollector : public rocksdb::TablePropertiesCollector {
 public:
  rocksdb::Status AddUserKey(const rocksdb::Slice&, const rocksdb::Slice& value,
                             rocksdb::EntryType type, rocksdb::SequenceNumber, uint64_t) override {
    uint32_t epoch = std::numeric_limits<uint32_t>::max();  // A deletion hides rows: always read.
    if (type == rocksdb::kEntryPut && value.size() >= sizeof(RowHeader) - kIdBytes) {
      std::memcpy(&epoch, value.data() + offsetof(RowHeader, epoch), sizeof(epoch));
    }
    epoch_max_ = std::max(epoch_max_, epoch);
    return rocksdb::Status::OK();
  }
  rocksdb::Status Finish(rocksdb::UserCollectedProperties* properties) override {
    properties->insert({kEpochProperty, std::to_string(epoch_max_)});
    return rocksdb::Status::OK();
  }
  rocksdb::UserCollectedProperties GetReadableProperties() const override {
    return {{kEpochProperty, std::to_string(epoch_max_)}};
  }
  const char* Name() const override { return "StarlingEpochCollector"; }

 private:
  uint32_t epoch_max_ = 0;
};

class EpochCollectorFactory : public rocksdb::TablePropertiesCollectorFactory {
 public:
  rocksdb::TablePropertiesCollector* CreateTablePropertiesCollector(
      rocksdb::TablePropertiesCollectorFactory::Context) override {
    return new EpochCollector;
  }
  const char* Name() const override { return "StarlingEpochCollectorFactory"; }
};

// Flushes and merges run on RocksDB's threads: here tests get hold of them, and counters that
// nobody reads are switched off.
class BackgroundPoints : public rocksdb::EventListener {
 public:
  void OnFlushBegin(rocksdb::DB*, const rocksdb::FlushJobInfo&) override {
    rocksdb::SetPerfLevel(rocksdb::PerfLevel::kDisable);
    STARLING_SYNC_POINT("store.flush.begin");
  }
  void OnCompactionBegin(rocksdb::DB*, const rocksdb::CompactionJobInfo&) override {
    rocksdb::SetPerfLevel(rocksdb::PerfLevel::kDisable);
  }
  void OnFlushCompleted(rocksdb::DB*, const rocksdb::FlushJobInfo&) override {
    STARLING_SYNC_POINT("store.flush.end");
  }
};

rocksdb::Options MakeOptions(int64_t memory_bytes, int64_t row_bytes,
                             std::shared_ptr<rocksdb::Cache>* cache) {
  rocksdb::BlockBasedTableOptions table;
  table.block_size = kBlockBytes;
  // A row is then in one page of the page cache instead of two. Larger rows would not fill theirs.
  table.block_align = row_bytes <= static_cast<int64_t>(kBlockBytes) / 8;
  // Rows that are read again are in memory by then: the cache is for indexes and filters.
  *cache = rocksdb::NewLRUCache(CacheBytes(memory_bytes), -1, false, 0.9);
  table.block_cache = *cache;
  table.cache_index_and_filter_blocks = true;  // So that they are bounded too.
  table.cache_index_and_filter_blocks_with_high_priority = true;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10, false));
  table.use_delta_encoding =
      false;  // A tenth of a key is spared otherwise, and each is put together.
  rocksdb::Options options;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.table_properties_collector_factories.push_back(std::make_shared<EpochCollectorFactory>());
  options.create_if_missing = true;
  options.max_write_buffer_number = 2;
  options.write_buffer_size = (memory_bytes - CacheBytes(memory_bytes)) / 2;
  // Rows leave memory as often as they are read, so that writing them again and again costs more
  // than to ask the filters of more runs.
  options.compaction_style = rocksdb::kCompactionStyleUniversal;
  options.level0_file_num_compaction_trigger = 12;
  options.level0_slowdown_writes_trigger = 36;
  options.level0_stop_writes_trigger = 72;
  options.compaction_options_universal.size_ratio = 20;
  options.compaction_options_universal.min_merge_width = 4;
  options.max_background_jobs = 4;  // Small runs are merged while a large one is.
  options.target_file_size_base = FileBytes(memory_bytes);
  options.memtable_whole_key_filtering = true;  // Most ids that are looked up are not there.
  options.memtable_prefix_bloom_size_ratio = 0.05;
  options.max_open_files = 256;
  options.check_flush_compaction_key_order = false;  // A second look at every key.
  options.compression = rocksdb::kNoCompression;     // Floats do not compress.
  options.listeners.push_back(std::make_shared<BackgroundPoints>());
  options.statistics = rocksdb::CreateDBStatistics();
  options.statistics->set_stats_level(rocksdb::StatsLevel::kExceptHistogramOrTimers);
  options.info_log_level = rocksdb::FATAL_LEVEL;
  options.keep_log_file_num = 1;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  return options;
}

// After a failed flush RocksDB refuses writes until it is told to go on; its
// unwritten rows are still in its buffers.
rocksdb::Status WriteOrResume(rocksdb::DB* rocks, rocksdb::WriteBatch* batch) {
  rocksdb::WriteOptions options;
  options.disableWAL = true;
  rocksdb::Status status = rocks->Write(options, batch);
  if (!status.ok() && rocks->Resume().ok()) status = rocks->Write(options, batch);
  return status;
}

class EmptyCursor : public ColdTier::Cursor {
 public:
  bool Valid() const override { return false; }
  const RowHeader& row() const override { return row_; }
  void Next() override {}
  absl::Status status() const override { return absl::OkStatus(); }

 private:
  RowHeader row_{};
};

}  // namespace

struct ColdTier::Db {
  std::unique_ptr<ScratchLock> lock;  // Held until the directory is removed.
  std::unique_ptr<rocksdb::DB> rocks;
  std::shared_ptr<rocksdb::Cache> cache;
  std::shared_ptr<rocksdb::Statistics> statistics;
};

class ColdTier::View {
 public:
  explicit View(rocksdb::DB* rocks) : rocks_(rocks), snapshot_(rocks->GetSnapshot()) {}
  ~View() { rocks_->ReleaseSnapshot(snapshot_); }
  View(const View&) = delete;
  View& operator=(const View&) = delete;
  const rocksdb::Snapshot* snapshot() const { return snapshot_; }

 private:
  rocksdb::DB* const rocks_;
  const rocksdb::Snapshot* const snapshot_;
};

namespace {

class RocksCursor : public ColdTier::Cursor {
 public:
  RocksCursor(rocksdb::DB* rocks, std::shared_ptr<ColdTier::View> view, uint32_t epoch_min,
              const Key& from, size_t stride, const std::string& dir)
      : view_(std::move(view)), dir_(dir), row_(stride) {
    rocksdb::ReadOptions options;
    options.fill_cache = false;
    options.readahead_size = 1 << 20;
    if (view_ != nullptr) options.snapshot = view_->snapshot();
    if (epoch_min > 0) {
      options.table_filter = [epoch_min](const rocksdb::TableProperties& properties) {
        auto it = properties.user_collected_properties.find(kEpochProperty);
        return it == properties.user_collected_properties.end() ||
               std::strtoul(it->second.c_str(), nullptr, 10) >= epoch_min;
      };
    }
    it_.reset(rocks->NewIterator(options));
    it_->Seek(SliceOf(from));
    Load();
  }
  bool Valid() const override { return it_->Valid(); }
  const RowHeader& row() const override { return *reinterpret_cast<const RowHeader*>(row_.data()); }
  void Next() override {
    it_->Next();
    Load();
  }
  absl::Status status() const override { return FromRocks(it_->status(), dir_); }

 private:
  void Load() {
    if (it_->Valid()) ReadRow(IdOf(it_->key()), it_->value(), row_.size(), row_.data());
  }
  std::shared_ptr<ColdTier::View> view_;  // Outlives the iterator.
  std::unique_ptr<rocksdb::Iterator> it_;
  const std::string dir_;
  std::vector<char> row_;
};

}  // namespace

ColdTier::ColdTier(const Options& options) : options_(options) {}

ColdTier::~ColdTier() {
  absl::MutexLock lock(&mu_);
  if (owned_ == nullptr) return;
  owned_->rocks.reset();
  RemoveAll(options_.dir).IgnoreError();  // Scratch: the next open discards what is left.
}

absl::Status ColdTier::Open() {
  absl::MutexLock lock(&mu_);
  if (db() != nullptr) return absl::OkStatus();
  auto opened = std::make_unique<Db>();
  // The disk may be full by the time that rows first leave memory.
  absl::StatusOr<std::unique_ptr<ScratchLock>> lock_file = ScratchLock::Take(options_.dir);
  if (!lock_file.ok()) return WithAdvice(lock_file.status());
  opened->lock = *std::move(lock_file);
  RETURN_IF_ERROR(Annotate(RemoveAll(options_.dir), "cold tier"));
  RETURN_IF_ERROR(WithAdvice(Annotate(MakeDirs(options_.dir), "cold tier")));
  const rocksdb::Options options = MakeOptions(
      options_.memory_bytes, int64_t{sizeof(RowHeader)} + options_.body_bytes, &opened->cache);
  rocksdb::DB* rocks = nullptr;
  RETURN_IF_ERROR(FromRocks(rocksdb::DB::Open(options, options_.dir, &rocks), options_.dir));
  opened->rocks.reset(rocks);
  opened->statistics = options.statistics;
  owned_ = std::move(opened);
  db_.store(owned_.get(), std::memory_order_release);
  return absl::OkStatus();
}

absl::Status ColdTier::Write(std::span<const char> rows) {
  if (rows.empty()) return absl::OkStatus();
  if (db() == nullptr) RETURN_IF_ERROR(Open());
  const size_t stride = sizeof(RowHeader) + options_.body_bytes;
  rocksdb::WriteBatch batch(rows.size() + rows.size() / stride * 16);
  for (size_t at = 0; at < rows.size(); at += stride) {
    const Key key = KeyOf(reinterpret_cast<const RowHeader*>(&rows[at])->id);
    const rocksdb::Slice key_slice = SliceOf(key);
    const rocksdb::Slice value[] = {{&rows[at], kIdAt},
                                    {&rows[at + kIdAt + kIdBytes], stride - kIdAt - kIdBytes}};
    RETURN_IF_ERROR(FromRocks(batch.Put({&key_slice, 1}, {value, 2}), options_.dir));
  }
  STARLING_SYNC_POINT("store.demote.write");
  RETURN_IF_ERROR(FromRocks(WriteOrResume(db()->rocks.get(), &batch), options_.dir));
  STARLING_SYNC_POINT("store.demote.written");
  rows_written_ += static_cast<int64_t>(rows.size() / stride);
  return absl::OkStatus();
}

absl::Status ColdTier::Delete(std::span<const uint64_t> ids) {
  if (db() == nullptr || ids.empty()) return absl::OkStatus();
  rocksdb::WriteBatch batch;
  for (uint64_t id : ids) {
    const Key key = KeyOf(id);
    RETURN_IF_ERROR(FromRocks(batch.Delete(SliceOf(key)), options_.dir));
  }
  return FromRocks(WriteOrResume(db()->rocks.get(), &batch), options_.dir);
}

// The blocks that the readers hold at a time are in the cache: half of it, at most.
ThreadPool* ColdTier::Readers() const {
  std::call_once(readers_once_, [this] {
    constexpr int64_t kHeld = kReadRows * kBlockBytes;
    readers_ = std::make_unique<ThreadPool>(static_cast<int>(
        std::clamp<int64_t>(CacheBytes(options_.memory_bytes) / 2 / kHeld, 1, kReadersMax)));
  });
  return readers_.get();
}

absl::Status ColdTier::ReadRun(std::span<const uint64_t> ids, size_t begin, size_t end,
                               ColdRows* rows) const {
  std::array<Key, kReadRows> keys;
  std::array<rocksdb::Slice, kReadRows> slices;
  std::array<rocksdb::PinnableSlice, kReadRows> values;
  std::array<rocksdb::Status, kReadRows> statuses;
  const size_t n = end - begin, stride = rows->stride_;
  bool sorted = true;
  for (size_t i = 0; i < n; ++i) {
    keys[i] = KeyOf(ids[begin + i]);
    slices[i] = SliceOf(keys[i]);
    if (i > 0 && !IdBefore(ids[begin + i - 1], ids[begin + i])) sorted = false;
  }
  rocksdb::SetPerfLevel(
      rocksdb::PerfLevel::kDisable);  // Counters of this thread that nobody reads.
  const int64_t before = DiskBlocksRead();
  rocksdb::DB& rocks = *db()->rocks;
  rocks.MultiGet(rocksdb::ReadOptions(), rocks.DefaultColumnFamily(), n, slices.data(),
                 values.data(), statuses.data(), sorted);
  const int64_t waits = (DiskBlocksRead() - before) * kDiskBlockBytes / kBlockBytes;
  if (n == kReadRows) on_disk_.store(waits > kReadRows / 8, std::memory_order_relaxed);
  for (size_t i = 0; i < n; ++i) {
    if (statuses[i].IsNotFound()) continue;
    RETURN_IF_ERROR(FromRocks(statuses[i], options_.dir));
    ReadRow(ids[begin + i], values[i], stride, &rows->bytes_[(begin + i) * stride]);
    rows->found_[begin + i] = 1;
  }
  return absl::OkStatus();
}

absl::Status ColdTier::MultiGet(std::span<const uint64_t> ids, ColdRows* rows,
                                ThreadPool* pool) const {
  rows->stride_ = sizeof(RowHeader) + options_.body_bytes;
  rows->found_.assign(ids.size(), 0);
  if (db() == nullptr || ids.empty()) return absl::OkStatus();
  rows->bytes_.resize(ids.size() * rows->stride_);
  const size_t runs = (ids.size() + kReadRows - 1) / kReadRows;
  std::vector<absl::Status> statuses(runs);
  auto read = [&](size_t run) {
    const size_t begin = run * kReadRows;
    statuses[run] = ReadRun(ids, begin, std::min(begin + kReadRows, ids.size()), rows);
  };
  size_t next = 0;
  bool on_disk = on_disk_.load(std::memory_order_relaxed);
  while (next < runs && pool == nullptr && !on_disk) {
    read(next++);
    on_disk = on_disk_.load(std::memory_order_relaxed);
  }
  if (next < runs) {
    (on_disk ? Readers() : pool)->ParallelFor(static_cast<int>(runs - next), [&](int i) {
      read(next + static_cast<size_t>(i));
    });
  }
  for (const absl::Status& status : statuses) RETURN_IF_ERROR(status);
  rows_read_ += static_cast<int64_t>(ids.size());
  return absl::OkStatus();
}

std::shared_ptr<ColdTier::View> ColdTier::NewView() const {
  if (db() == nullptr) return nullptr;
  return std::make_shared<View>(db()->rocks.get());
}

std::unique_ptr<ColdTier::Cursor> ColdTier::NewCursor(std::shared_ptr<View> view,
                                                      uint32_t epoch_min, uint64_t from_id,
                                                      uint32_t from_bucket) const {
  if (db() == nullptr) return std::make_unique<EmptyCursor>();
  return std::make_unique<RocksCursor>(db()->rocks.get(), std::move(view), epoch_min,
                                       KeyAt(from_bucket, from_id),
                                       sizeof(RowHeader) + options_.body_bytes, options_.dir);
}

ColdStats ColdTier::stats() const {
  ColdStats stats;
  if (db() == nullptr) return stats;
  stats.rows_read = rows_read_;
  stats.rows_written = rows_written_;
  stats.bytes_memory = options_.memory_bytes;
  uint64_t files = 0;
  db()->rocks->GetIntProperty(rocksdb::DB::Properties::kTotalSstFilesSize, &files);
  stats.bytes_disk = static_cast<int64_t>(files);
  auto ticker = [this](uint32_t t) {
    return static_cast<int64_t>(db()->statistics->getTickerCount(t));
  };
  stats.bytes_read = ticker(rocksdb::BLOCK_CACHE_BYTES_WRITE) + ticker(rocksdb::COMPACT_READ_BYTES);
  stats.bytes_written = ticker(rocksdb::FLUSH_WRITE_BYTES) + ticker(rocksdb::COMPACT_WRITE_BYTES);
  return stats;
}

}  // namespace starling
