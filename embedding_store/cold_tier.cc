#include "embedding_store/cold_tier.h"

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <array>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "base/status.h"
#include "base/sync_point.h"

namespace starling {
namespace {

using Key = std::array<char, 10>;

Key KeyOf(uint64_t id) {
  uint16_t bucket = __builtin_bswap16(static_cast<uint16_t>(BucketOf(id)));
  uint64_t swapped = __builtin_bswap64(id);
  Key key;
  std::memcpy(key.data(), &bucket, sizeof(bucket));
  std::memcpy(key.data() + sizeof(bucket), &swapped, sizeof(swapped));
  return key;
}
rocksdb::Slice SliceOf(const Key& key) { return {key.data(), key.size()}; }

uint64_t IdOf(const rocksdb::Slice& key) {
  uint64_t swapped;
  std::memcpy(&swapped, key.data() + sizeof(uint16_t), sizeof(swapped));
  return __builtin_bswap64(swapped);
}

// A stored row, copied out to where its floats are aligned.
struct Decoded {
  RowMeta meta;
  std::vector<float> floats;

  void Read(const rocksdb::Slice& value) {
    std::memcpy(static_cast<void*>(&meta), value.data(), sizeof(meta));
    floats.resize((value.size() - sizeof(meta)) / sizeof(float));
    if (floats.empty()) return;
    std::memcpy(floats.data(), value.data() + sizeof(meta), floats.size() * sizeof(float));
  }
};

absl::Status FromRocks(const rocksdb::Status& status, const std::string& dir) {
  if (status.ok()) return absl::OkStatus();
  std::string message = absl::StrCat(dir, ": cold tier: ", status.ToString());
  if (status.IsNoSpace()) {
    return absl::ResourceExhaustedError(
        absl::StrCat(message, "; free some disk space or raise the table's memory"));
  }
  if (status.IsCorruption()) return absl::DataLossError(message);
  return absl::UnavailableError(message);
}

rocksdb::Options MakeOptions(int64_t block_cache_bytes, int64_t write_buffer_bytes) {
  rocksdb::BlockBasedTableOptions table;
  table.block_size = 4096;
  table.block_cache = rocksdb::NewLRUCache(block_cache_bytes);
  table.cache_index_and_filter_blocks = true;  // So that they are bounded too.
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10, false));
  rocksdb::Options options;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.create_if_missing = true;
  options.write_buffer_size = write_buffer_bytes;
  options.max_write_buffer_number = 2;
  options.max_open_files = 256;
  options.compression = rocksdb::kNoCompression;  // Floats do not compress.
  options.info_log_level = rocksdb::FATAL_LEVEL;
  options.keep_log_file_num = 1;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  return options;
}

class RocksCursor : public ColdTier::Cursor {
 public:
  RocksCursor(std::unique_ptr<rocksdb::Iterator> it, std::string dir)
      : it_(std::move(it)), dir_(std::move(dir)) {
    it_->SeekToFirst();
    Load();
  }
  bool Valid() const override { return it_->Valid(); }
  uint64_t id() const override { return IdOf(it_->key()); }
  const RowMeta& meta() const override { return row_.meta; }
  std::span<const float> floats() const override { return row_.floats; }
  void Next() override {
    it_->Next();
    Load();
  }
  absl::Status status() const override { return FromRocks(it_->status(), dir_); }

 private:
  void Load() {
    if (it_->Valid()) row_.Read(it_->value());
  }
  std::unique_ptr<rocksdb::Iterator> it_;
  const std::string dir_;
  Decoded row_;
};

class EmptyCursor : public ColdTier::Cursor {
 public:
  bool Valid() const override { return false; }
  uint64_t id() const override { return 0; }
  const RowMeta& meta() const override { return meta_; }
  std::span<const float> floats() const override { return {}; }
  void Next() override {}
  absl::Status status() const override { return absl::OkStatus(); }

 private:
  RowMeta meta_;
};

}  // namespace

struct ColdTier::Db {
  std::unique_ptr<rocksdb::DB> rocks;
};

ColdTier::ColdTier(const Options& options) : options_(options) {}

ColdTier::~ColdTier() {
  absl::MutexLock lock(&mu_);
  if (owned_ == nullptr) return;
  owned_.reset();
  RemoveAll(options_.dir).IgnoreError();  // Scratch: the next open discards what is left.
}

absl::Status ColdTier::Open() {
  absl::MutexLock lock(&mu_);
  if (db() != nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(Annotate(RemoveAll(options_.dir), "cold tier"));
  RETURN_IF_ERROR(Annotate(MakeDirs(options_.dir), "cold tier"));
  rocksdb::DB* rocks = nullptr;
  rocksdb::Status status = rocksdb::DB::Open(
      MakeOptions(options_.block_cache_bytes, options_.write_buffer_bytes), options_.dir, &rocks);
  RETURN_IF_ERROR(FromRocks(status, options_.dir));
  owned_ = std::make_unique<Db>();
  owned_->rocks.reset(rocks);
  db_.store(owned_.get(), std::memory_order_release);
  return absl::OkStatus();
}

absl::Status ColdTier::Write(std::span<const Row> rows) {
  if (db() == nullptr) RETURN_IF_ERROR(Open());
  rocksdb::WriteBatch batch;
  std::string value;
  for (const Row& row : rows) {
    value.assign(reinterpret_cast<const char*>(row.meta), sizeof(RowMeta));
    value.append(reinterpret_cast<const char*>(row.floats.data()), row.floats.size_bytes());
    Key key = KeyOf(row.id);
    RETURN_IF_ERROR(FromRocks(batch.Put(SliceOf(key), value), options_.dir));
  }
  STARLING_SYNC_POINT("store.demote.write");
  rocksdb::WriteOptions write;
  write.disableWAL = true;
  return FromRocks(db()->rocks->Write(write, &batch), options_.dir);
}

absl::Status ColdTier::Delete(std::span<const uint64_t> ids) {
  if (db() == nullptr || ids.empty()) return absl::OkStatus();
  rocksdb::WriteBatch batch;
  for (uint64_t id : ids) {
    Key key = KeyOf(id);
    RETURN_IF_ERROR(FromRocks(batch.Delete(SliceOf(key)), options_.dir));
  }
  rocksdb::WriteOptions write;
  write.disableWAL = true;
  return FromRocks(db()->rocks->Write(write, &batch), options_.dir);
}

absl::Status ColdTier::MultiGet(std::span<const uint64_t> ids, const Visit& visit) const {
  const size_t n = ids.size();
  std::vector<Key> keys(n);
  std::vector<rocksdb::Slice> slices(n);
  std::vector<rocksdb::PinnableSlice> values(n);
  std::vector<rocksdb::Status> statuses(n, rocksdb::Status::NotFound());
  bool sorted = true;
  for (size_t i = 0; i < n; ++i) {
    keys[i] = KeyOf(ids[i]);
    slices[i] = SliceOf(keys[i]);
    if (i > 0 && !IdBefore(ids[i - 1], ids[i])) sorted = false;
  }
  if (db() != nullptr && n > 0) {
    rocksdb::DB& rocks = *db()->rocks;
    rocks.MultiGet(rocksdb::ReadOptions(), rocks.DefaultColumnFamily(), n, slices.data(),
                   values.data(), statuses.data(), sorted);
  }
  for (const rocksdb::Status& status : statuses) {
    if (!status.IsNotFound()) RETURN_IF_ERROR(FromRocks(status, options_.dir));
  }
  Decoded row;
  for (size_t i = 0; i < n; ++i) {
    bool here = statuses[i].ok();
    if (here) row.Read(values[i]);
    RETURN_IF_ERROR(visit(i, here ? &row.meta : nullptr,
                          here ? std::span<const float>(row.floats) : std::span<const float>()));
  }
  return absl::OkStatus();
}

std::unique_ptr<ColdTier::Cursor> ColdTier::NewCursor() const {
  if (db() == nullptr) return std::make_unique<EmptyCursor>();
  return std::make_unique<RocksCursor>(
      std::unique_ptr<rocksdb::Iterator>(db()->rocks->NewIterator(rocksdb::ReadOptions())),
      options_.dir);
}

}  // namespace starling
