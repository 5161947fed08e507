#include "embedding_store/embedding_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "base/optimizer.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "embedding_store/row_file.h"
#include "embedding_store/row_file_format.h"
#include "embedding_store/table_stripe.h"

namespace starling {
namespace {

constexpr int64_t kChunkBytesMax = 256 << 10;
constexpr int64_t kAdmissionBytesMax = 64 << 20;
constexpr size_t kParallelIds = 4096;  // Smaller batches are not worth waking threads.

// Names of the extras in a snapshot.
constexpr char kAdmissionExtra[] = "admission";
constexpr char kCountersExtra[] = "counters";  // u64 dense steps, u64 epoch.

// The positions of a batch, by stripe; within a stripe in the batch's order.
struct StripeGroups {
  explicit StripeGroups(std::span<const uint64_t> ids) : positions(ids.size()) {
    offsets.fill(0);
    for (uint64_t id : ids) ++offsets[StripeOf(id) + 1];
    for (uint32_t s = 0; s < kStripes; ++s) offsets[s + 1] += offsets[s];
    std::array<uint32_t, kStripes + 1> next = offsets;
    for (uint32_t p = 0; p < ids.size(); ++p) positions[next[StripeOf(ids[p])]++] = p;
  }
  std::span<const uint32_t> of(uint32_t stripe) const {
    return std::span(positions).subspan(offsets[stripe], offsets[stripe + 1] - offsets[stripe]);
  }
  std::vector<uint32_t> positions;
  std::array<uint32_t, kStripes + 1> offsets;
};

absl::Status CheckSegment(const std::string& where, const SegmentSpec& file,
                          const SegmentSpec& mine) {
  std::string name = absl::StrCat(where, ": segment ", mine.name());
  auto differ = [&](const char* what, const auto& a, const auto& b) {
    return absl::FailedPreconditionError(
        absl::StrCat(name, ": ", what, " is ", a, " in the file and ", b, " here"));
  };
  if (file.name() != mine.name()) return differ("name", file.name(), mine.name());
  if (file.dim() != mine.dim()) return differ("dim", file.dim(), mine.dim());
  if (file.optimizer().rule_case() != mine.optimizer().rule_case()) {
    return differ("optimizer", OptimizerName(file.optimizer()), OptimizerName(mine.optimizer()));
  }
  return absl::OkStatus();
}

// FailedPrecondition, naming what differs, unless rows of the file fit the table.
absl::Status CheckLayout(const std::string& path, const RowFileHeader& header,
                         const TableSpec& spec, const RowLayout& layout) {
  const std::string where = absl::StrCat(path, ": table ", spec.options().name());
  auto refuse = [&where](const std::string& what) {
    return absl::FailedPreconditionError(absl::StrCat(where, ": ", what));
  };
  if (header.spec.options().name() != spec.options().name()) {
    return refuse(absl::StrCat("the file holds table ", header.spec.options().name()));
  }
  if (header.spec.segments_size() != spec.segments_size()) {
    return refuse(absl::StrCat("the file's rows have ", header.spec.segments_size(),
                               " segments, the table's ", spec.segments_size()));
  }
  for (int i = 0; i < spec.segments_size(); ++i) {
    RETURN_IF_ERROR(CheckSegment(where, header.spec.segments(i), spec.segments(i)));
  }
  if (header.width != layout.width() || header.state_size != layout.state_size()) {
    return refuse(absl::StrCat("the file's rows have ", header.width, " weights and ",
                               header.state_size, " floats of optimizer state, the table's ",
                               layout.width(), " and ", layout.state_size()));
  }
  return absl::OkStatus();
}

class EmbeddingTableImpl : public EmbeddingTable {
 public:
  EmbeddingTableImpl(std::unique_ptr<TableCore> core, ThreadPool* pool)
      : core_(std::move(core)), pool_(pool) {
    for (auto& stripe : stripes_) stripe = std::make_unique<TableStripe>(core_.get());
  }

  const TableSpec& spec() const override { return core_->spec; }
  const RowLayout& layout() const override { return core_->layout; }
  int width() const override { return core_->layout.width(); }

  absl::Status Lookup(std::span<const uint64_t> ids, std::span<float> weights) const override {
    RETURN_IF_ERROR(CheckSizes(ids.size(), weights.size()));
    return ForStripes(ids, [&](TableStripe& stripe, const StripeBatch& batch) {
      return stripe.Lookup(batch, weights);
    });
  }

  absl::Status LookupOrCreate(std::span<const uint64_t> ids, std::span<const uint32_t> counts,
                              std::span<const int64_t> event_times,
                              std::span<float> weights) override {
    RETURN_IF_ERROR(CheckSizes(ids.size(), weights.size()));
    if ((!counts.empty() && counts.size() != ids.size()) ||
        (!event_times.empty() && event_times.size() != ids.size())) {
      return absl::InvalidArgumentError("counts and event_times must be empty or as long as ids");
    }
    absl::ReaderMutexLock lock(&writers_);
    return ForStripes(ids, [&](TableStripe& stripe, const StripeBatch& batch) {
      return stripe.LookupOrCreate(batch, counts, event_times, weights);
    });
  }

  absl::Status ApplyGradients(std::span<const uint64_t> ids, std::span<const float> grads,
                              float lr_scale) override {
    RETURN_IF_ERROR(CheckSizes(ids.size(), grads.size()));
    absl::ReaderMutexLock lock(&writers_);
    return ForStripes(
        ids,
        [&](TableStripe& stripe, const StripeBatch& batch) {
          return stripe.ApplyGradients(batch, grads, lr_scale);
        },
        core_->dense);
  }

  void Prefetch(std::span<const uint64_t> ids) override {
    if (core_->cold == nullptr) return;
    absl::ReaderMutexLock lock(&writers_);
    // An error shows again, and is returned, when the rows are asked for.
    ForStripes(ids, [](TableStripe& stripe, const StripeBatch& batch) {
      return stripe.Prefetch(batch);
    }).IgnoreError();
  }

  absl::Status Erase(std::span<const uint64_t> ids) override {
    absl::ReaderMutexLock lock(&writers_);
    return ForStripes(
        ids, [](TableStripe& stripe, const StripeBatch& batch) { return stripe.Erase(batch); });
  }

  absl::Status Snapshot(const std::string& path) override {
    absl::MutexLock lock(&writers_);
    ASSIGN_OR_RETURN(std::unique_ptr<RowFileWriter> writer,
                     RowFileWriter::Create(
                         path, {core_->spec, core_->layout.width(), core_->layout.state_size()}));
    RETURN_IF_ERROR(Walk([&](uint64_t id, const RowMeta& meta, std::span<const float> floats) {
      return writer->Append({.id = id, .meta = meta, .floats = floats});
    }));
    std::string admission, counters;
    for (auto& stripe : stripes_) stripe->AppendAdmission(&admission);
    row_file::Put<uint64_t>(&counters, stripes_[0]->steps());
    row_file::Put<uint64_t>(&counters, core_->epoch + 1);
    RETURN_IF_ERROR(writer->AddExtra(kAdmissionExtra, admission));
    RETURN_IF_ERROR(writer->AddExtra(kCountersExtra, counters));
    RETURN_IF_ERROR(writer->Finish());
    ++core_->epoch;
    return absl::OkStatus();
  }

  absl::Status Restore(const std::string& path,
                       const std::function<bool(uint64_t)>& keep) override {
    ASSIGN_OR_RETURN(std::unique_ptr<RowFileReader> reader, RowFileReader::Open(path));
    RETURN_IF_ERROR(CheckLayout(path, reader->header(), core_->spec, core_->layout));
    absl::MutexLock lock(&writers_);
    std::map<std::string, std::string> extras;
    RETURN_IF_ERROR(reader->ReadAll(
        [&](const RowRecord& record) {
          if (!keep(record.id)) return absl::OkStatus();
          return stripes_[StripeOf(record.id)]->Put(record);
        },
        &extras));
    return Annotate(RestoreExtras(extras), path);
  }

  absl::Status ForEach(const std::function<void(uint64_t, const RowMeta&, std::span<const float>)>&
                           fn) const override {
    absl::MutexLock lock(&writers_);
    return Walk([&fn](uint64_t id, const RowMeta& meta, std::span<const float> floats) {
      fn(id, meta, floats);
      return absl::OkStatus();
    });
  }

  int64_t rows() const override {
    TableStats all = stats();
    return all.rows_memory + all.rows_cold;
  }

  TableStats stats() const override {
    TableStats all;
    for (const auto& stripe : stripes_) stripe->AddStats(&all);
    return all;
  }

 private:
  absl::Status CheckSizes(size_t ids, size_t floats) const {
    if (floats == ids * core_->layout.width()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("table ", core_->spec.options().name(), ": ",
                                                   floats, " floats for ", ids, " ids of width ",
                                                   core_->layout.width()));
  }

  // Calls fn for every stripe that has a part in the batch (or for all) and
  // returns the first stripe's error. Every part runs, so that the outcome is
  // the same with and without threads.
  template <typename Fn>
  absl::Status ForStripes(std::span<const uint64_t> ids, const Fn& fn, bool all = false) const {
    const StripeGroups groups(ids);
    std::array<absl::Status, kStripes> statuses;
    auto run = [&](int s) {
      const StripeBatch batch{ids, groups.of(s)};
      if (all || !batch.positions.empty()) statuses[s] = fn(*stripes_[s], batch);
    };
    if (pool_ != nullptr && (all || ids.size() >= kParallelIds)) {
      pool_->ParallelFor(kStripes, run);
    } else {
      for (uint32_t s = 0; s < kStripes; ++s) run(s);
    }
    for (const absl::Status& status : statuses) RETURN_IF_ERROR(status);
    return absl::OkStatus();
  }

  // Every row by (bucket, id). Costs four bytes per row in memory while it runs.
  absl::Status Walk(const TableStripe::RowFn& fn) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(writers_) {
    std::vector<TableStripe::Order> orders;
    for (const auto& stripe : stripes_) orders.push_back(stripe->OrderByBucket());
    const ColdTier none({});
    auto cursor = (core_->cold != nullptr ? *core_->cold : none).NewCursor();
    RETURN_IF_ERROR(cursor->status());
    for (uint32_t b = 0; b < kBuckets; ++b) {
      const uint32_t s = b % kStripes;
      RETURN_IF_ERROR(stripes_[s]->EmitBucket(b, orders[s], cursor.get(), fn));
    }
    return absl::OkStatus();
  }

  absl::Status RestoreExtras(std::map<std::string, std::string>& extras)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writers_) {
    const std::string& counters = extras[kCountersExtra];
    if (counters.size() >= 16) {
      const auto steps = row_file::Get<uint64_t>(counters.data());
      const auto epoch = static_cast<uint32_t>(row_file::Get<uint64_t>(counters.data() + 8));
      for (auto& stripe : stripes_) stripe->RaiseSteps(steps);
      core_->epoch = std::max<uint32_t>(core_->epoch, epoch);
    }
    const absl::string_view admission = extras[kAdmissionExtra];
    const size_t part = admission.size() / kStripes;
    for (uint32_t s = 0; s < kStripes; ++s) {
      RETURN_IF_ERROR(stripes_[s]->MergeAdmission(admission.substr(s * part, part)));
    }
    return absl::OkStatus();
  }

  const std::unique_ptr<TableCore> core_;
  ThreadPool* const pool_;
  std::array<std::unique_ptr<TableStripe>, kStripes> stripes_;  // Each guards itself.
  // Shared by calls that change rows; exclusive while rows are walked or restored.
  mutable absl::Mutex writers_ ABSL_ACQUIRED_BEFORE(stripes_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<EmbeddingTable>> EmbeddingTable::Open(const TableSpec& spec,
                                                                     const TableEnv& env) {
  const std::string where = absl::StrCat("table ", spec.options().name());
  auto core = std::make_unique<TableCore>();
  ASSIGN_OR_RETURN(core->layout, RowLayout::Create(spec));
  RETURN_IF_ERROR(Annotate(AdmissionFilter::Check(spec.options().admit()), where));
  core->spec = spec;
  core->seed = TableSeed(spec);
  core->ttl = spec.options().evict().ttl();
  core->dense = spec.options().update() == TableOptions::DENSE;
  core->budget = spec.options().memory();
  const int64_t row_bytes = RowSlab::RowBytes(core->layout.floats());
  const int64_t least = kStripes * (256 + 4 * row_bytes);
  if (core->budget < least) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": memory is ", core->budget, " bytes; raise it to at least ", least));
  }
  const int64_t share = core->budget / kStripes;
  core->chunk_rows = std::bit_floor<uint64_t>(std::clamp<int64_t>(
      share / 8 / row_bytes, 1, std::max<int64_t>(1, kChunkBytesMax / row_bytes)));
  core->admission_bytes = std::clamp<int64_t>(share / 32, 64, kAdmissionBytesMax / kStripes);
  if (spec.options().tier() == TableOptions::ROCKSDB && !core->dense) {
    if (env.scratch_dir.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": tier rocksdb needs a scratch directory"));
    }
    core->cold = std::make_unique<ColdTier>(ColdTier::Options{.dir = env.scratch_dir});
  }
  return std::make_unique<EmbeddingTableImpl>(std::move(core), env.pool);
}

}  // namespace starling
