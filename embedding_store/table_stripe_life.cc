// TableStripe: rows that go, rows on their way into a snapshot, and what is counted.
#include <algorithm>

#include "base/hash.h"
#include "base/status.h"
#include "base/sync_point.h"
#include "embedding_store/row_file_format.h"
#include "embedding_store/table_stripe.h"

namespace starling {

// ---- Eviction ----

absl::Status TableStripe::Erase(std::span<const uint64_t> ids) {
  absl::MutexLock lock(&mu_);
  return EraseLocked(ids);
}

absl::Status TableStripe::EraseLocked(std::span<const uint64_t> ids) {
  AwaitWritten();
  std::vector<uint32_t> slots;
  std::vector<uint64_t> missed;
  for (uint64_t id : ids) {
    const uint32_t slot = FindSlot(id);
    if (slot != BucketIndex::kNone) slots.push_back(slot);
    if (slot == BucketIndex::kNone && rows_cold_ > 0) missed.push_back(id);
  }
  RETURN_IF_ERROR(Evict(slots));
  stats_.erased += static_cast<int64_t>(slots.size());
  if (missed.empty()) return absl::OkStatus();
  ColdRows rows;
  RETURN_IF_ERROR(core_.cold->MultiGet(missed, &rows));
  std::vector<uint64_t> cold;
  for (size_t i = 0; i < missed.size(); ++i) {
    if (rows.row(i) != nullptr) cold.push_back(missed[i]);
  }
  stats_.erased += static_cast<int64_t>(cold.size());
  return EvictCold(cold);
}

absl::Status TableStripe::Evict(std::span<const uint32_t> slots) {
  std::vector<uint64_t> in_cold;
  if (!slots.empty()) STARLING_SYNC_POINT("store.evict");
  for (uint32_t slot : slots) {
    if (rows_.row(slot).has(kRowInCold)) in_cold.push_back(rows_.row(slot).id);
  }
  if (!in_cold.empty()) RETURN_IF_ERROR(core_.cold->Delete(in_cold));
  for (uint32_t slot : slots) {
    RowHeader& row = rows_.row(slot);
    BeforeChange(&row);
    NoteGone(row.id);
    FreeSlot(slot);
  }
  return absl::OkStatus();
}

absl::Status TableStripe::EvictCold(std::span<const uint64_t> ids) {
  if (ids.empty()) return absl::OkStatus();
  STARLING_SYNC_POINT("store.evict.cold");
  RETURN_IF_ERROR(core_.cold->Delete(ids));
  for (uint64_t id : ids) {
    ++Version(id);
    NoteGone(id);
  }
  rows_cold_ -= static_cast<int64_t>(ids.size());
  return absl::OkStatus();
}

void TableStripe::NoteGone(uint64_t id) {
  const uint32_t epoch = core_.epoch.load(std::memory_order_relaxed);
  if (epoch <= 1) return;                            // No snapshot yet that could hold the row.
  if (tombstones_.size() >= core_.tombstones_max) {  // The next snapshot must be a full one.
    tombstones_.clear();
    tombstones_from_ = epoch + 1;
  }
  if (tombstones_from_ <= epoch) tombstones_.emplace_back(epoch, id);
}

bool TableStripe::Doomed(const RowHeader& row) const {
  if (Expired(row.event_time, core_.event_time.load(std::memory_order_relaxed))) return true;
  return core_.norm_min > 0 && core_.layout.Norm(row.body()) < core_.norm_min;
}

void TableStripe::MoveBar(int64_t surplus) {
  if (surplus <= 0) aged_ = std::max(1u, aged_ / 2);
  if (surplus > aged_out_) aged_ = std::min(aged_ * 2, RowHeader::kFrequencyMax);
  aged_out_ = 0;
}

absl::Status TableStripe::Sweep(int64_t slots, int64_t surplus) {
  absl::MutexLock lock(&mu_);
  AwaitWritten();
  STARLING_SYNC_POINT("store.sweep");
  std::vector<uint32_t> victims;
  for (int64_t n = std::min<int64_t>(slots, rows_.slots()); n > 0; --n) {
    if (sweep_ >= rows_.slots()) {
      sweep_ = 0;
      if (rows_cold_ == 0) MoveBar(surplus);  // Else SweepCold does: its round is the longer one.
    }
    const RowHeader& row = rows_.row(sweep_);
    if (row.has(kRowUsed)) {
      const bool seldom = surplus > 0 && row.frequency() <= aged_;
      if (seldom || Doomed(row)) victims.push_back(sweep_);
      surplus -= seldom;
      aged_out_ += seldom;
    }
    ++sweep_;
  }
  RETURN_IF_ERROR(Evict(victims));
  stats_.evicted += static_cast<int64_t>(victims.size());
  return absl::OkStatus();
}

absl::Status TableStripe::SweepCold(std::span<const uint64_t> ids, int64_t surplus, bool last) {
  absl::MutexLock lock(&mu_);
  AwaitWritten();
  std::vector<uint64_t> wanted, victims;
  for (uint64_t id : ids) {
    if (FindSlot(id) == BucketIndex::kNone) wanted.push_back(id);
  }
  ColdRows rows;
  RETURN_IF_ERROR(core_.cold->MultiGet(wanted, &rows));
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (rows.row(i) == nullptr) continue;
    const bool seldom = surplus > 0 && rows.row(i)->frequency() <= aged_;
    if (seldom || Doomed(*rows.row(i))) victims.push_back(wanted[i]);
    surplus -= seldom;
    aged_out_ += seldom;
  }
  if (last && rows_cold_ > 0) MoveBar(surplus);
  RETURN_IF_ERROR(EvictCold(victims));
  stats_.evicted += static_cast<int64_t>(victims.size());
  return absl::OkStatus();
}

// ---- Snapshot ----

void TableStripe::BeginSnapshot(uint32_t since, std::string* admission,
                                std::vector<uint64_t>* tombstones) {
  absl::MutexLock lock(&mu_);
  cursor_ = 0;
  since_ = since;
  std::string state;
  admission_.AppendTo(&state);
  row_file::Put<uint64_t>(admission, state.size());
  admission->append(state);
  for (const auto& [epoch, id] : tombstones_) {
    if (since > 0 && epoch >= since) tombstones->push_back(id);
  }
}

bool TableStripe::CopyRows(int64_t slots, RowBlock* out) {
  absl::MutexLock lock(&mu_);
  const uint32_t end = static_cast<uint32_t>(std::min<int64_t>(cursor_ + slots, rows_.slots()));
  for (; cursor_ < end && !out->full(); ++cursor_) {
    const RowHeader& row = rows_.row(cursor_);
    if (row.has(kRowUsed) && Wanted(row)) out->Add(core_.layout, row);
  }
  if (cursor_ < rows_.slots()) return true;
  cursor_ = kNoCursor;
  core_.aside.Push(&aside_);
  aside_ = RowBlock();
  return false;
}

void TableStripe::CopyAside(const RowHeader& row) {
  if (aside_.full()) {
    core_.aside.Push(&aside_);
    if (aside_.full()) aside_ = RowBlock(core_.layout, core_.aside_block_bytes);
  }
  aside_.Add(core_.layout, row);
}

void TableStripe::EndSnapshot() {
  absl::MutexLock lock(&mu_);
  cursor_ = kNoCursor;
  aside_ = RowBlock();
}

void TableStripe::DropTombstones(uint32_t epoch) {
  absl::MutexLock lock(&mu_);
  std::erase_if(tombstones_, [epoch](const auto& t) { return t.first < epoch; });
  tombstones_from_ = std::max(tombstones_from_, epoch);
}

uint32_t TableStripe::tombstones_from() {
  absl::MutexLock lock(&mu_);
  return tombstones_from_;
}

absl::Status TableStripe::Walk(uint32_t bucket_end, ColdTier::Cursor* cold,
                               const std::function<absl::Status(const RowHeader&)>& fn) {
  absl::MutexLock lock(&mu_);
  std::vector<uint32_t> hot;
  hot.reserve(rows_.rows());
  for (uint32_t s = 0; s < rows_.slots(); ++s) {
    if (rows_.row(s).has(kRowUsed)) hot.push_back(s);
  }
  std::sort(hot.begin(), hot.end(),
            [this](uint32_t a, uint32_t b) { return IdBefore(rows_.row(a).id, rows_.row(b).id); });
  auto cold_here = [&] { return cold->Valid() && BucketOf(cold->row().id) < bucket_end; };
  for (auto it = hot.begin(); it != hot.end() || cold_here();) {
    if (cold_here() && (it == hot.end() || IdBefore(cold->row().id, rows_.row(*it).id))) {
      RETURN_IF_ERROR(fn(cold->row()));
      cold->Next();
      continue;
    }
    if (cold_here() && cold->row().id == rows_.row(*it).id) cold->Next();  // Memory wins.
    RETURN_IF_ERROR(fn(rows_.row(*it)));
    ++it;
  }
  return cold->status();
}

// ---- Counts, and the state that snapshots take beside rows ----

int64_t TableStripe::bytes() const {
  return rows_.bytes() + index_.bytes() + admission_.bytes() +
         std::ssize(nowhere_) * int64_t{sizeof(uint64_t)};
}

absl::Status TableStripe::MergeAdmission(absl::string_view state,
                                         const std::function<bool(uint64_t)>& owns) {
  absl::MutexLock lock(&mu_);
  return admission_.Merge(state, owns);
}

uint64_t TableStripe::steps() {
  absl::MutexLock lock(&mu_);
  return steps_;
}

void TableStripe::RaiseSteps(uint64_t steps) {
  absl::MutexLock lock(&mu_);
  steps_ = std::max(steps_, steps);
}

void TableStripe::AddStats(TableStats* stats) {
  absl::MutexLock lock(&mu_);
  stats->rows_memory += rows_.rows();
  stats->rows_cold += rows_cold_;
  stats->bytes_memory += bytes();
  stats->hits_memory += hits_memory_;
  stats->hits_cold += hits_cold_;
  stats->misses += misses_;
  stats->created += stats_.created;
  stats->refused += stats_.refused;
  stats->expired += stats_.expired;
  stats->evicted += stats_.evicted;
  stats->erased += stats_.erased;
  stats->demoted += stats_.demoted;
  stats->promoted += stats_.promoted;
}

}  // namespace starling
