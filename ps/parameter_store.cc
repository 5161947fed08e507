#include "ps/parameter_store.h"

#include <atomic>
#include <cstdio>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "base/sync_point.h"
#include "base/wrong.h"
#include "ps/applied_names.h"
#include "ps/call_check.h"
#include "ps/dense_params.h"
#include "ps/shard_map.h"

namespace starling {
namespace {

constexpr char kDenseFile[] = "dense.bin";

std::string TableFile(const std::string& table, int shard, int shards) {
  return absl::StrCat("table-", table, "-", shard, "-of-", shards, ".rows");
}
std::string AppliedFile(int shard, int shards) {
  return absl::StrCat("applied-", shard, "-of-", shards, ".bin");
}

absl::Status CheckConfig(const StoreConfig& config, int shard, int shards) {
  if (shards < 1 || shards > static_cast<int>(kBuckets) || shard < 0 || shard >= shards) {
    return absl::InvalidArgumentError(absl::StrCat("there is no shard ", shard, " of ", shards));
  }
  std::set<std::string> names;
  for (const TableSpec& spec : config.tables().tables()) {
    const std::string& name = spec.options().name();
    if (name.empty() || name.find('/') != std::string::npos || !names.insert(name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("table name \"", name, "\" is empty, holds a '/', or is there twice"));
    }
    // Ids are dealt out to shards; the rows that ids share would be on several.
    if (spec.options().has_multi_hash() && shards > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("table ", name, ": multi_hash needs one shard, not ", shards));
    }
  }
  return CheckDense(config);
}

// How many shards wrote a checkpoint, by the names of its files.
absl::StatusOr<int> ShardsOf(const std::string& dir, const std::vector<FileSetEntry>& files) {
  for (const FileSetEntry& file : files) {
    int shard = 0, shards = 0;
    if (std::sscanf(file.name.c_str(), "applied-%d-of-%d.bin", &shard, &shards) == 2 &&
        file.name == AppliedFile(shard, shards) && shards > 0) {
      return shards;
    }
  }
  return absl::DataLossError(absl::StrCat(dir, ": holds no applied-<shard>-of-<shards>.bin"));
}

using Checksums = std::map<std::string, uint32_t>;  // Of a cut's files, by name.

class Store final : public ParameterStore {
 public:
  Store(const StoreConfig& config, int shard, int shards)
      : config_(config), shard_(shard), map_(shards), dense_(shard == 0 ? config : StoreConfig()) {}

  absl::Status OpenTables(const std::string& scratch_dir, ThreadPool* pool);

  const StoreConfig& config() const override { return config_; }
  int shard() const override { return shard_; }
  int shards() const override { return map_.servers(); }

  absl::Status PullRows(PullMode mode, std::span<const TableKeys> tables,
                        std::span<const std::span<float>> weights) override;
  void Prefetch(std::span<const TableKeys> tables) override;
  absl::Status PullDense(std::span<float> params) const override;
  absl::Status SetDense(std::span<const float> params) override;
  absl::Status Push(const BatchName& name, float lr_scale, std::span<const TableKeys> tables,
                    std::span<const std::span<const float>> grads,
                    std::span<const float> dense_grads, bool* applied) override;

  absl::StatusOr<std::unique_ptr<StoreCut>> StartCut(const std::string& dir,
                                                     const CutOptions& options) override;
  void ForgetBefore(const std::vector<uint32_t>& epochs) override;
  absl::Status Load(const std::vector<StoredCut>& chain) override;

  EmbeddingTable& table(int t) override { return *tables_[t]; }
  int tables() const override { return static_cast<int>(tables_.size()); }
  int64_t batches_applied() const override { return applied_count_.load(); }
  int64_t batches_repeated() const override { return repeated_count_.load(); }

 private:
  absl::Status CheckDenseSize(size_t floats) const;
  absl::Status Apply(float lr_scale, std::span<const TableKeys> tables,
                     std::span<const std::span<const float>> grads,
                     std::span<const float> dense_grads);
  absl::Status CheckEmpty() const;
  absl::Status LoadTables(const StoredCut& cut, bool last);
  absl::Status LoadTable(int t, const std::string& dir, int writers, const Checksums& files,
                         EmbeddingTable::Take take);
  absl::Status LoadRest(const StoredCut& cut);
  absl::Status VerifyRest(const StoredCut& cut) const;

  const std::string& TableName(int t) const { return config_.tables().tables(t).options().name(); }

  const StoreConfig config_;
  const int shard_;
  const ShardMap map_;
  std::vector<std::unique_ptr<EmbeddingTable>> tables_;  // Constant after Create.
  std::vector<int> widths_;                              // By table; likewise.
  DenseParams dense_;                                    // No tensors off shard 0.
  AppliedNames applied_;
  std::atomic<int64_t> applied_count_{0};
  std::atomic<int64_t> repeated_count_{0};
};

absl::Status Store::OpenTables(const std::string& scratch_dir, ThreadPool* pool) {
  for (int t = 0; t < config_.tables().tables_size(); ++t) {
    TableEnv env{JoinPath(scratch_dir, absl::StrCat("table-", TableName(t), "-", shard_)), pool};
    TableSpec spec = config_.tables().tables(t);
    if (const int64_t rows = spec.options().rows_expected(); rows > 0) {
      spec.mutable_options()->set_rows_expected(rows / map_.servers());
    }
    auto table = EmbeddingTable::Open(spec, env);
    if (!table.ok()) return Annotate(table.status(), absl::StrCat("table ", TableName(t)));
    widths_.push_back((*table)->width());
    tables_.push_back(*std::move(table));
  }
  return absl::OkStatus();
}

absl::Status Store::CheckDenseSize(size_t floats) const {
  if (floats == static_cast<size_t>(dense_.size())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("shard ", shard_, " holds ", dense_.size(),
                                                 " dense parameters, the call has ", floats));
}

absl::Status Store::PullRows(PullMode mode, std::span<const TableKeys> tables,
                             std::span<const std::span<float>> weights) {
  RETURN_IF_ERROR(CheckCall(config_, widths_, tables, weights));
  for (size_t t = 0; t < tables.size(); ++t) {
    const TableKeys& keys = tables[t];
    absl::Status status = mode == PullMode::kReadOnly
                              ? tables_[t]->Lookup(keys.ids, weights[t])
                              : tables_[t]->LookupOrCreate(keys.ids, keys.counts, keys.event_times,
                                                           weights[t], keys.places);
    RETURN_IF_ERROR(Annotate(status, absl::StrCat("table ", TableName(t))));
  }
  STARLING_SYNC_POINT("ps:pulled");
  return absl::OkStatus();
}

void Store::Prefetch(std::span<const TableKeys> tables) {
  for (size_t t = 0; t < std::min(tables.size(), tables_.size()); ++t) {
    tables_[t]->Prefetch(tables[t].ids);
  }
}

absl::Status Store::PullDense(std::span<float> params) const {
  RETURN_IF_ERROR(CheckDenseSize(params.size()));
  dense_.Get(params);
  return absl::OkStatus();
}

absl::Status Store::SetDense(std::span<const float> params) {
  RETURN_IF_ERROR(CheckDenseSize(params.size()));
  dense_.Set(params);
  return absl::OkStatus();
}

absl::Status Store::Push(const BatchName& name, float lr_scale, std::span<const TableKeys> tables,
                         std::span<const std::span<const float>> grads,
                         std::span<const float> dense_grads, bool* applied) {
  *applied = false;
  RETURN_IF_ERROR(CheckCall(config_, widths_, tables, grads));
  if (!dense_grads.empty()) RETURN_IF_ERROR(CheckDenseSize(dense_grads.size()));
  ASSIGN_OR_RETURN(bool is_new, applied_.Begin(name));
  if (!is_new) STARLING_SYNC_POINT("ps:push_repeated");
  if (!is_new && !STARLING_WRONG("dedup_lost")) {
    repeated_count_.fetch_add(1);
    return absl::OkStatus();
  }
  absl::Status status = Apply(lr_scale, tables, grads, dense_grads);
  applied_.Finish(name, status.ok());
  STARLING_SYNC_POINT("ps:push_named");
  RETURN_IF_ERROR(status);
  applied_count_.fetch_add(1);
  *applied = true;
  return absl::OkStatus();
}

absl::Status Store::Apply(float lr_scale, std::span<const TableKeys> tables,
                          std::span<const std::span<const float>> grads,
                          std::span<const float> dense_grads) {
  for (size_t t = 0; t < tables.size(); ++t) {
    absl::Status status =
        tables_[t]->ApplyGradients(tables[t].ids, grads[t], lr_scale, tables[t].places);
    if (!status.ok()) {
      return Annotate(status, absl::StrCat("table ", TableName(t),
                                           ": the batch is applied in part"
                                           " and not recorded; go back to the last checkpoint"));
    }
  }
  STARLING_SYNC_POINT("ps:push_tables");
  if (!dense_grads.empty()) dense_.Apply(lr_scale, dense_grads);
  STARLING_SYNC_POINT("ps:push_dense");
  return absl::OkStatus();
}

// The small parts are copied at the instant; the tables copy for themselves.
class Cut final : public StoreCut {
 public:
  explicit Cut(const std::string& dir) : dir_(dir) {}
  void Add(std::unique_ptr<TableSnapshot> table) {
    epochs_.push_back(table->epoch());
    tables_.push_back(std::move(table));
  }
  void Add(const std::string& file, std::string bytes) {
    files_.emplace_back(file, std::move(bytes));
  }

  absl::StatusOr<std::vector<FileSetEntry>> Wait() override {
    std::vector<FileSetEntry> entries;
    absl::Status status;
    for (const auto& [name, bytes] : files_) {
      absl::StatusOr<FileSetEntry> entry = WriteSetFile(dir_, name, bytes);
      status.Update(entry.status());
      if (entry.ok()) entries.push_back(*std::move(entry));
    }
    STARLING_SYNC_POINT("ps:small_parts_written");
    for (const auto& table : tables_) {
      if (!status.ok()) Hurry();
      absl::StatusOr<std::vector<FileSetEntry>> files = table->Wait();
      status.Update(files.status());
      if (files.ok()) entries.insert(entries.end(), files->begin(), files->end());
    }
    RETURN_IF_ERROR(status);
    STARLING_SYNC_POINT("ps:save_end");
    return entries;
  }
  void Hurry() override {
    for (const auto& table : tables_) table->Hurry();
  }
  const std::vector<uint32_t>& epochs() const override { return epochs_; }

 private:
  const std::string dir_;
  std::vector<std::unique_ptr<TableSnapshot>> tables_;
  std::vector<uint32_t> epochs_;
  std::vector<std::pair<std::string, std::string>> files_;  // Name, bytes.
};

absl::StatusOr<std::unique_ptr<StoreCut>> Store::StartCut(const std::string& dir,
                                                          const CutOptions& options) {
  STARLING_SYNC_POINT("ps:save_start");
  RETURN_IF_ERROR(MakeDirs(dir));
  auto cut = std::make_unique<Cut>(dir);
  for (int t = 0; t < tables(); ++t) {
    SnapshotOptions snapshot{.since = options.since.empty() ? 0 : options.since[t],
                             .bytes_per_second_max = options.bytes_per_second_max / tables()};
    ASSIGN_OR_RETURN(std::unique_ptr<TableSnapshot> table,
                     tables_[t]->StartSnapshot(
                         JoinPath(dir, TableFile(TableName(t), shard_, shards())), snapshot));
    cut->Add(std::move(table));
    STARLING_SYNC_POINT("ps:table_cut");
  }
  if (shard_ == 0) cut->Add(kDenseFile, dense_.Encode());
  cut->Add(AppliedFile(shard_, shards()), applied_.Encode());
  return cut;
}

void Store::ForgetBefore(const std::vector<uint32_t>& epochs) {
  for (int t = 0; t < tables(); ++t) tables_[t]->DropTombstones(epochs[t]);
}

absl::Status Store::CheckEmpty() const {
  int64_t rows = 0;
  for (const auto& table : tables_) rows += table->rows();
  if (rows == 0 && applied_.size() == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the store already holds ", rows, " rows and ",
                                                    applied_.size(),
                                                    " applied batches; load into a new one"));
}

absl::Status Store::LoadTable(int t, const std::string& dir, int writers, const Checksums& files,
                              EmbeddingTable::Take take) {
  auto mine = [this](uint64_t id) { return map_.ServerOf(id) == shard_; };
  auto restore = [&](const Checksums::value_type& file) {
    return tables_[t]->Restore(JoinPath(dir, file.first), mine, take, file.second);
  };
  for (int w = 0; w < writers; ++w) {
    if (writers == shards() && w != shard_) continue;  // Holds no row of this shard.
    std::string name = TableFile(TableName(t), w, writers);
    const auto hot = files.find(name), cold = files.find(name + kColdSuffix);
    if (hot == files.end()) {
      return absl::FailedPreconditionError(absl::StrCat(dir, ": holds no ", name));
    }
    // The cold rows first: what was in memory is newer.
    if (cold != files.end()) RETURN_IF_ERROR(restore(*cold));
    STARLING_SYNC_POINT("ps:load_table");
    RETURN_IF_ERROR(restore(*hot));
  }
  return absl::OkStatus();
}

absl::Status Store::Load(const std::vector<StoredCut>& chain) {
  RETURN_IF_ERROR(CheckEmpty());
  for (const StoredCut& cut : chain) {
    const bool last = &cut == &chain.back();
    RETURN_IF_ERROR(LoadTables(cut, last));
    RETURN_IF_ERROR(last ? LoadRest(cut) : VerifyRest(cut));
  }
  return absl::OkStatus();
}

absl::Status Store::LoadTables(const StoredCut& cut, bool last) {
  const auto& [dir, files] = cut;
  ASSIGN_OR_RETURN(int writers, ShardsOf(dir, files));
  Checksums checksums;
  std::set<std::string> expected;
  for (const FileSetEntry& file : files) checksums[file.name] = file.crc32c;
  for (int t = 0; t < tables(); ++t) {
    for (int w = 0; w < writers; ++w) {
      expected.insert(TableFile(TableName(t), w, writers));
      expected.insert(TableFile(TableName(t), w, writers) + kColdSuffix);
    }
  }
  for (const auto& [name, crc32c] : checksums) {
    if (name.starts_with("table-") && !expected.contains(name)) {
      return absl::FailedPreconditionError(
          absl::StrCat(dir, ": ", name, " belongs to no table of this job, or to another cut"));
    }
  }
  const auto take = last ? EmbeddingTable::Take::kAll : EmbeddingTable::Take::kRows;
  for (int t = 0; t < tables(); ++t) RETURN_IF_ERROR(LoadTable(t, dir, writers, checksums, take));
  return absl::OkStatus();
}

absl::Status Store::LoadRest(const StoredCut& cut) {
  const auto& [dir, files] = cut;
  ASSIGN_OR_RETURN(int writers, ShardsOf(dir, files));
  if (shard_ == 0) {
    ASSIGN_OR_RETURN(std::string bytes, ReadSetFile(dir, files, kDenseFile));
    RETURN_IF_ERROR(dense_.Decode(bytes, JoinPath(dir, kDenseFile)));
  }
  // Among as many shards as wrote it, a shard's own window is the exact one;
  // another number of shards knows only that a batch was applied by some.
  for (int w = 0; w < writers; ++w) {
    if (writers == shards() && w != shard_) continue;
    std::string name = AppliedFile(w, writers);
    ASSIGN_OR_RETURN(std::string bytes, ReadSetFile(dir, files, name));
    RETURN_IF_ERROR(applied_.Merge(bytes, JoinPath(dir, name)));
  }
  return absl::OkStatus();
}

// A later cut has newer ones, but a checkpoint that is damaged anywhere is no base to trust.
absl::Status Store::VerifyRest(const StoredCut& cut) const {
  std::vector<FileSetEntry> rest = cut.files;
  std::erase_if(rest, [](const FileSetEntry& file) { return file.name.starts_with("table-"); });
  return VerifyFileSet(cut.dir, rest);
}

}  // namespace

absl::StatusOr<std::vector<FileSetEntry>> CutSource::Save(const std::string& dir) {
  ASSIGN_OR_RETURN(std::unique_ptr<StoreCut> cut, StartCut(dir, {}));
  return cut->Wait();
}

absl::StatusOr<std::unique_ptr<ParameterStore>> ParameterStore::Create(
    const StoreConfig& config, int shard, int shards, const std::string& scratch_dir,
    ThreadPool* pool) {
  RETURN_IF_ERROR(CheckConfig(config, shard, shards));
  auto store = std::make_unique<Store>(config, shard, shards);
  RETURN_IF_ERROR(store->OpenTables(scratch_dir, pool));
  return store;
}

}  // namespace starling
