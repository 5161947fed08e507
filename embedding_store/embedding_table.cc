#include "embedding_store/embedding_table.h"

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/hash.h"
#include "base/metrics.h"
#include "base/status.h"
#include "base/sync_point.h"
#include "base/thread_pool.h"
#include "embedding_store/layout_check.h"
#include "embedding_store/multi_hash_table.h"
#include "embedding_store/row_file.h"
#include "embedding_store/row_file_format.h"
#include "embedding_store/stripe_parts.h"
#include "embedding_store/table_metrics.h"
#include "embedding_store/table_snapshot.h"
#include "embedding_store/table_stripe.h"

namespace starling {
namespace {

constexpr size_t kRestorePartsMax = 8;
constexpr size_t kParallelIds = 4096;  // Smaller batches are not worth waking threads.
constexpr size_t kFetchIds = 1024;     // Cold rows read at once, about: few leave memory meanwhile.
constexpr size_t kSweepColdIds = 256;  // Cold rows looked at in one turn of the keeper.
constexpr absl::Duration kKeeperTurn = absl::Milliseconds(10);

class EmbeddingTableImpl : public EmbeddingTable {
 public:
  EmbeddingTableImpl(std::unique_ptr<TableCore> core, ThreadPool* pool)
      : core_(std::move(core)),
        shift_(std::countr_zero(kBuckets) - core_->stripe_bits),
        pool_(pool) {
    for (int s = 0; s < 1 << core_->stripe_bits; ++s) {
      stripes_.push_back(std::make_unique<TableStripe>(core_.get()));
    }
    if (const int64_t rows = core_->spec.options().rows_expected(); rows > 0) {
      const auto stripes = static_cast<int64_t>(stripes_.size());
      ForAll(stripes_.size(), /*parallel=*/true, [&](size_t s) {
        stripes_[s]->TakeMemory((rows + stripes - 1) / stripes);
        return absl::OkStatus();
      }).IgnoreError();
    }
  }
  ~EmbeddingTableImpl() override {
    stopped_ = true;
    if (keeper_.joinable()) keeper_.join();
  }

  absl::Status CheckMemory() const {
    for (const auto& stripe : stripes_) {
      if (!stripe->ok()) return absl::ResourceExhaustedError("the machine has no memory for it");
    }
    return absl::OkStatus();
  }

  const TableSpec& spec() const override { return core_->spec; }
  const RowLayout& layout() const override { return core_->layout; }
  int width() const override { return core_->layout.width(); }

  absl::Status Lookup(std::span<const uint64_t> ids, std::span<float> weights) const override {
    RETURN_IF_ERROR(CheckSizes(ids.size(), weights.size()));
    return Call({.kind = TableCall::kLookup, .ids = ids, .weights = weights});
  }

  absl::Status LookupOrCreate(std::span<const uint64_t> ids, std::span<const uint32_t> counts,
                              std::span<const int64_t> event_times, std::span<float> weights,
                              std::span<uint32_t> places) override {
    RETURN_IF_ERROR(CheckSizes(ids.size(), weights.size()));
    RETURN_IF_ERROR(CheckLengths(ids.size(), {counts.size(), event_times.size(), places.size()}));
    std::fill(places.begin(), places.end(), 0);  // A refused id's: anywhere.
    if (core_->ttl > 0 && !event_times.empty()) {
      const int64_t latest = *std::max_element(event_times.begin(), event_times.end());
      if (latest > 0) core_->event_time = latest;
    }
    return Call({.kind = TableCall::kCreate,
                 .ids = ids,
                 .counts = counts,
                 .event_times = event_times,
                 .weights = weights,
                 .places_out = places});
  }

  absl::Status ApplyGradients(std::span<const uint64_t> ids, std::span<const float> grads,
                              float lr_scale, std::span<const uint32_t> places) override {
    RETURN_IF_ERROR(CheckSizes(ids.size(), grads.size()));
    RETURN_IF_ERROR(CheckLengths(ids.size(), {places.size()}));
    return Call({.kind = TableCall::kGradients,
                 .ids = ids,
                 .grads = grads,
                 .lr_scale = lr_scale,
                 .places = places});
  }

  absl::Status ApplyDeltas(std::span<const uint64_t> ids, std::span<const float> deltas) override {
    RETURN_IF_ERROR(CheckSizes(ids.size(), deltas.size()));
    return Call({.kind = TableCall::kDeltas, .ids = ids, .grads = deltas});
  }

  void Prefetch(std::span<const uint64_t> ids) override {
    if (core_->cold == nullptr) return;
    // An error shows again, and is returned, when the rows are asked for.
    Call({.kind = TableCall::kPrefetch, .ids = ids}).IgnoreError();
  }

  absl::Status Erase(std::span<const uint64_t> ids) override {
    core_->aside.WaitForRoom();
    absl::ReaderMutexLock lock(&writers_);
    std::vector<std::vector<uint64_t>> parts(stripes_.size());
    for (uint64_t id : ids) parts[StripeOf(id)].push_back(id);
    for (size_t s = 0; s < parts.size(); ++s) {
      if (!parts[s].empty()) RETURN_IF_ERROR(stripes_[s]->Erase(parts[s]));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<TableSnapshot>> StartSnapshot(
      const std::string& path, const SnapshotOptions& options) override {
    absl::MutexLock lock(&writers_);
    if (snapshot_active_.exchange(true)) return Refuse("a snapshot is being written");
    for (const auto& stripe : stripes_) {
      if (options.since == 0 || stripe->tombstones_from() <= options.since) continue;
      snapshot_active_ = false;
      return Refuse(
          absl::StrCat("too many rows went since epoch ", options.since, "; take a full snapshot"));
    }
    SnapshotInstant instant;
    instant.epoch = ++core_->epoch;
    instant.steps = stripes_[0]->steps();
    row_file::Put<uint32_t>(&instant.admission, static_cast<uint32_t>(stripes_.size()));
    core_->aside.Start(core_->aside_bytes -
                       core_->aside_block_bytes * static_cast<int64_t>(stripes_.size()));
    for (const auto& stripe : stripes_) {
      stripe->BeginSnapshot(options.since, &instant.admission, &instant.tombstones);
    }
    if (core_->cold != nullptr) instant.cold = core_->cold->NewView();
    return std::make_unique<SnapshotTask>(core_.get(), stripes_, std::move(instant), path, options,
                                          [this] { EndSnapshot(); });
  }

  void DropTombstones(uint32_t epoch) override {
    for (const auto& stripe : stripes_) stripe->DropTombstones(epoch);
  }

  absl::Status Restore(const std::string& path, const std::function<bool(uint64_t)>& keep,
                       Take take, std::optional<uint32_t> crc32c) override {
    ASSIGN_OR_RETURN(std::unique_ptr<RowFileReader> reader, RowFileReader::Open(path));
    RETURN_IF_ERROR(CheckLayout(path, reader->header(), core_->spec, core_->layout));
    absl::MutexLock lock(&writers_);
    if (snapshot_active_) return Refuse("a snapshot is being written");
    const int64_t expected = reader->rows() / static_cast<int64_t>(stripes_.size());
    RETURN_IF_ERROR(ForAll(stripes_.size(), expected >= kParallelIds, [&](size_t s) {
      stripes_[s]->ExpectRows(expected);
      return absl::OkStatus();
    }));
    // Every part reads the whole file, which is little beside setting rows, checks what holds
    // rows of its stripes and sets them: in the file's order, as an id may go and come again.
    const size_t parts =
        pool_ == nullptr
            ? 1
            : std::min({static_cast<size_t>(pool_->threads()), stripes_.size(), kRestorePartsMax});
    std::map<std::string, std::string> extras;
    RETURN_IF_ERROR(ForAll(parts, /*parallel=*/true, [&](size_t part) -> absl::Status {
      BucketRuns share{.runs = 0, .shift = shift_};
      for (size_t s = part; s < stripes_.size(); s += parts) share.runs |= uint64_t{1} << s;
      ASSIGN_OR_RETURN(std::unique_ptr<RowFileReader> file, RowFileReader::Open(path, crc32c));
      return file->ReadShare(
          share, [&](std::span<RowRecord> rows) { return PutRows(rows, keep); },
          part == 0 ? &extras : nullptr);
    }));
    if (take == Take::kRows) return absl::OkStatus();
    RETURN_IF_ERROR(Annotate(RestoreCounters(extras[kCountersExtra]), path));
    return Annotate(RestoreAdmission(extras[kAdmissionExtra], keep), path);
  }

  absl::Status ForEach(const std::function<void(uint64_t, const RowMeta&, std::span<const float>)>&
                           fn) const override {
    absl::MutexLock lock(&writers_);
    const ColdTier none({});
    auto cursor = (core_->cold != nullptr ? *core_->cold : none).NewCursor(nullptr);
    std::vector<float> floats(core_->layout.floats());
    for (size_t s = 0; s < stripes_.size(); ++s) {
      const auto bucket_end = static_cast<uint32_t>((s + 1) << shift_);
      RETURN_IF_ERROR(stripes_[s]->Walk(bucket_end, cursor.get(), [&](const RowHeader& row) {
        core_->layout.Unpack(row.body(), floats);
        fn(row.id, row.meta(), floats);
        return absl::OkStatus();
      }));
    }
    return absl::OkStatus();
  }

  int64_t rows() const override {
    TableStats all;
    for (const auto& stripe : stripes_) stripe->AddStats(&all);
    return all.rows_memory + all.rows_cold;
  }

  TableStats stats() const override {
    TableStats all;
    for (const auto& stripe : stripes_) stripe->AddStats(&all);
    all.snapshot_aside_bytes = core_->aside.copied_bytes();
    if (core_->cold == nullptr) return all;
    const ColdStats cold = core_->cold->stats();
    const int64_t row = sizeof(RowHeader) + core_->layout.body_bytes();
    all.bytes_memory += cold.bytes_memory;
    all.bytes_disk = cold.bytes_disk;
    all.cold_bytes_wanted = cold.rows_read * row;
    all.cold_bytes_given = cold.rows_written * row;
    all.cold_bytes_read = cold.bytes_read;
    all.cold_bytes_written = cold.bytes_written;
    return all;
  }

 private:
  uint32_t StripeOf(uint64_t id) const { return BucketOf(id) >> shift_; }

  absl::Status Refuse(absl::string_view why) const {
    return absl::FailedPreconditionError(
        absl::StrCat("table ", core_->spec.options().name(), ": ", why));
  }
  // Runs fn(i) for i in [0, n) and returns the first error. Every i runs, so
  // that the outcome is the same with and without threads.
  template <typename Fn>
  absl::Status ForAll(size_t n, bool parallel, const Fn& fn) const {
    std::vector<absl::Status> statuses(n);
    if (pool_ != nullptr && parallel) {
      pool_->ParallelFor(static_cast<int>(n), [&](int i) { statuses[i] = fn(i); });
    } else {
      // Calls of several threads begin at different stripes, and so seldom meet at one.
      const size_t first =
          turn_.fetch_add(1, std::memory_order_relaxed) * 37 % std::max<size_t>(n, 1);
      for (size_t i = 0; i < n; ++i) {
        const size_t at = first + i < n ? first + i : first + i - n;
        statuses[at] = fn(at);
      }
    }
    for (const absl::Status& status : statuses) RETURN_IF_ERROR(status);
    return absl::OkStatus();
  }

  // Rows of a stripe that are too many, on average.
  int64_t Surplus() const {
    const int64_t all = core_->rows_max > 0 ? rows() - core_->rows_max : 0;
    return all > 0 ? all / static_cast<int64_t>(stripes_.size()) + 1 : 0;
  }

  absl::Status Call(const TableCall& call) const {
    if (call.kind != TableCall::kLookup) core_->aside.WaitForRoom();
    absl::ReaderMutexLock lock(&writers_);
    const StripeParts split(call.ids, static_cast<int>(stripes_.size()), shift_);
    const bool steps = call.kind == TableCall::kGradients;
    const int64_t surplus = steps ? Surplus() : 0;
    std::vector<std::vector<Missed>> missed(stripes_.size());
    RETURN_IF_ERROR(ForAll(stripes_.size(), call.ids.size() >= kParallelIds || core_->dense,
                           [&](size_t s) -> absl::Status {
                             const StripePart& part = split.parts[s];
                             if (!part.ids.empty() || (steps && core_->dense))
                               RETURN_IF_ERROR(stripes_[s]->Run(call, part, &missed[s]));
                             if (steps && core_->evicts())
                               return stripes_[s]->Sweep(static_cast<int64_t>(part.ids.size()) + 4,
                                                         surplus);
                             return absl::OkStatus();
                           }));
    RETURN_IF_ERROR(RunMissed(call, std::move(missed)));
    if (core_->demote_due.load(std::memory_order_relaxed)) StartKeeper();
    return absl::OkStatus();
  }

  // Reads what was not in memory from the cold tier and ends the call there. A
  // prefetch of the same ids may be under way, and each would read what the other
  // does: so the two come from opposite ends, and ask memory again as they go.
  absl::Status RunMissed(const TableCall& call, std::vector<std::vector<Missed>> missed) const {
    // Nobody waits for a prefetch: it leaves the pool to those who compute.
    const bool prefetch = call.kind == TableCall::kPrefetch;
    ThreadPool* const pool = prefetch ? nullptr : pool_;
    const size_t n = missed.size();
    auto stripe_at = [prefetch, n](size_t i) { return prefetch ? i : n - 1 - i; };
    std::vector<uint64_t> wanted;
    ColdRows rows;
    for (size_t begin = 0, end = 0; begin < n; begin = end) {
      wanted.clear();
      for (; end < n && wanted.size() < kFetchIds; ++end) {
        const size_t s = stripe_at(end);
        RETURN_IF_ERROR(RunAgain(call, s, &missed[s]));
        for (const Missed& m : missed[s]) wanted.push_back(call.ids[m.position]);
      }
      if (wanted.empty()) break;
      RETURN_IF_ERROR(core_->cold->MultiGet(wanted, &rows, pool));
      STARLING_SYNC_POINT("store.fetched");
      size_t first = 0;
      for (size_t i = begin; i < end; ++i) {
        const size_t s = stripe_at(i);
        if (missed[s].empty()) continue;
        RETURN_IF_ERROR(stripes_[s]->RunMissed(call, missed[s], rows, first));
        first += missed[s].size();
      }
    }
    return absl::OkStatus();
  }

  // Leaves in `missed` what has not come into memory since. Room for their rows is
  // made before: a row that leaves while others are read makes some of them doubtful.
  absl::Status RunAgain(const TableCall& call, size_t stripe, std::vector<Missed>* missed) const {
    if (missed->empty()) return absl::OkStatus();
    std::vector<uint64_t> ids;
    std::vector<uint32_t> positions;
    for (const Missed& m : *missed) {
      ids.push_back(call.ids[m.position]);
      positions.push_back(m.position);
    }
    missed->clear();
    // An error shows again when the room is needed.
    if (call.kind != TableCall::kLookup) stripes_[stripe]->Demote(std::ssize(ids)).IgnoreError();
    return stripes_[stripe]->Run(call, {.ids = ids, .positions = positions}, missed);
  }

  absl::Status PutRows(std::span<RowRecord> rows, const std::function<bool(uint64_t)>& keep) {
    const auto end = std::remove_if(rows.begin(), rows.end(),
                                    [&keep](const RowRecord& row) { return !keep(row.id); });
    for (auto begin = rows.begin(); begin < end;) {  // A run of one stripe at a time.
      const uint32_t stripe = StripeOf(begin->id);
      const auto next = std::find_if(
          begin, end, [&](const RowRecord& row) { return StripeOf(row.id) != stripe; });
      RETURN_IF_ERROR(stripes_[stripe]->Put({begin, next}));
      begin = next;
    }
    return absl::OkStatus();
  }

  absl::Status RestoreCounters(absl::string_view counters) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writers_) {
    if (counters.size() < 16) return absl::OkStatus();
    const auto steps = row_file::Get<uint64_t>(counters.data());
    const auto epoch = static_cast<uint32_t>(row_file::Get<uint64_t>(counters.data() + 8));
    core_->epoch = std::max<uint32_t>(core_->epoch, epoch);
    for (auto& stripe : stripes_) {
      stripe->RaiseSteps(steps);
      stripe->DropTombstones(epoch);  // What went before the snapshot is not known here.
    }
    return absl::OkStatus();
  }

  absl::Status RestoreAdmission(absl::string_view state, const std::function<bool(uint64_t)>& keep)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writers_) {
    if (state.empty()) return absl::OkStatus();  // The file of cold rows has none.
    ASSIGN_OR_RETURN(const std::vector<absl::string_view> parts, SplitAdmissionStates(state));
    // Stripes are runs of buckets, so one of theirs covers several of ours or the reverse.
    const size_t theirs = parts.size(), ours = stripes_.size();
    for (size_t i = 0; i < std::max(theirs, ours); ++i) {
      const size_t from = theirs >= ours ? i : i * theirs / ours;
      const size_t to = ours >= theirs ? i : i * ours / theirs;
      RETURN_IF_ERROR(stripes_[to]->MergeAdmission(
          parts[from], [&](uint64_t id) { return StripeOf(id) == to && keep(id); }));
    }
    return absl::OkStatus();
  }

  void EndSnapshot() {
    for (const auto& stripe : stripes_) stripe->EndSnapshot();
    core_->aside.Stop();
    snapshot_active_ = false;
  }

  // ---- The keeper: a thread that begins with the first demotion ----

  void StartKeeper() const {
    std::call_once(keeper_once_, [this] { keeper_ = std::thread([this] { Keep(); }); });
  }

  void Keep() const {
    uint32_t bucket = 0;
    uint64_t id = 0;  // Where the sweep of the cold tier stands.
    absl::Time next_sweep = absl::Now();
    while (!stopped_) {
      const bool due = core_->demote_due.exchange(false);
      for (size_t s = 0; due && s < stripes_.size() && !stopped_;) {
        absl::ReaderMutexLock lock(&writers_);
        absl::StatusOr<bool> more = stripes_[s]->Demote();
        // An error shows in the next call that needs the room.
        if (!more.ok() || !*more) ++s;
      }
      // Also while demotions never end: it is then that cold rows grow in number.
      if (core_->evicts() && absl::Now() >= next_sweep) {
        SweepCold(&bucket, &id);
        next_sweep = absl::Now() + kKeeperTurn;
      }
      if (!due) absl::SleepFor(kKeeperTurn);
    }
  }

  void SweepCold(uint32_t* bucket, uint64_t* id) const {
    const int64_t surplus = Surplus();
    absl::ReaderMutexLock lock(&writers_);
    auto cursor = core_->cold->NewCursor(nullptr, 0, *id, *bucket);
    std::vector<uint64_t> ids;
    uint32_t stripe = 0;
    for (; cursor->Valid() && ids.size() < kSweepColdIds; cursor->Next()) {
      const uint64_t next = cursor->row().id;
      if (!ids.empty() && StripeOf(next) != stripe) break;
      stripe = StripeOf(next);
      ids.push_back(next);
    }
    *id = ids.empty() ? 0 : ids.back() + 1;
    // No id comes after the largest one: on with the next bucket.
    *bucket = ids.empty() ? 0 : BucketOf(ids.back()) + (*id == 0);
    if (ids.empty()) return;
    const bool last = !cursor->Valid() || StripeOf(cursor->row().id) != stripe;
    stripes_[stripe]->SweepCold(ids, surplus, last).IgnoreError();
  }

  const std::unique_ptr<TableCore> core_;
  const int shift_;  // Of a bucket, to its stripe.
  ThreadPool* const pool_;
  std::vector<std::unique_ptr<TableStripe>> stripes_;  // Each guards itself.
  std::atomic<bool> snapshot_active_{false};
  std::atomic<bool> stopped_{false};
  mutable std::atomic<size_t> turn_{0};
  mutable std::once_flag keeper_once_;
  mutable std::thread keeper_;
  // Shared by calls; exclusive at a snapshot's instant and while rows are
  // walked or restored.
  mutable absl::Mutex writers_;
  // Last: it goes before what it reads.
  MetricsRefresher metrics_{[this] { ExportTableMetrics(core_->spec.options().name(), stats()); }};
};

}  // namespace

absl::StatusOr<std::unique_ptr<EmbeddingTable>> EmbeddingTable::Open(const TableSpec& spec,
                                                                     const TableEnv& env) {
  ASSIGN_OR_RETURN(std::unique_ptr<TableCore> core, MakeTableCore(spec, env));
  auto table = std::make_unique<EmbeddingTableImpl>(std::move(core), env.pool);
  RETURN_IF_ERROR(Annotate(table->CheckMemory(), absl::StrCat("table ", spec.options().name())));
  if (spec.options().has_multi_hash()) return WrapMultiHash(std::move(table));
  return table;
}

}  // namespace starling
