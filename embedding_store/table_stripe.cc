#include "embedding_store/table_stripe.h"

#include <algorithm>
#include <cstring>

#include "base/status.h"
#include "base/sync_point.h"

namespace starling {
namespace {

constexpr size_t kRowsAhead = 24;
constexpr size_t kLinesAhead = 2 * kRowsAhead;  // Index lines likewise.
constexpr size_t kAgainAhead = kRowsAhead / 2;  // Rows whose index entry was not at home.
constexpr size_t kRing = 128;

}  // namespace

TableStripe::TableStripe(TableCore* core)
    : core_(*core),
      index_(core->arena.get(), std::clamp<int64_t>(core->share / 64, 4 << 10, 128 << 10)),
      rows_(core->layout.body_bytes(), core->arena.get(),
            std::clamp<int64_t>(core->share / 16, 4 << 10, 256 << 10)),
      admission_(core->spec.options().admit(), core->seed, core->admission_bytes) {
  rows_.Grow();
  core_.bytes += bytes();
}

uint32_t TableStripe::FindSlot(uint64_t id) const {
  return index_.Find(BucketIndex::HashOf(id),
                     [this, id](uint32_t slot) { return rows_.row(slot).id == id; });
}

template <typename OnHit>
void TableStripe::Scan(const TableCall& call, const StripePart& part, int64_t bytes,
                       std::vector<Missed>* missed, const OnHit& on_hit) {
  const size_t n = part.size;
  uint64_t hashes[kRing];
  uint32_t guesses[kRing];
  auto id_at = [&](size_t k) { return call.ids[part.position(k)]; };
  auto start = [&](size_t k) {
    const uint64_t hash = BucketIndex::HashOf(id_at(k));
    hashes[k % kRing] = hash;
    index_.Prefetch(hash);
  };
  auto prefetch = [&](uint32_t slot) { rows_.Prefetch(slot, bytes); };
  auto guess = [&](size_t k) { guesses[k % kRing] = index_.Guess(hashes[k % kRing], prefetch); };
  auto guess_again = [&](size_t k) {  // For one in thirty or so.
    if (guesses[k % kRing] == BucketIndex::kNone) index_.GuessNext(hashes[k % kRing], prefetch);
  };
  for (size_t k = 0; k < std::min(n, kLinesAhead); ++k) start(k);
  for (size_t k = 0; k < std::min(n, kRowsAhead); ++k) guess(k);
  for (size_t k = 0; k < n; ++k) {
    if (k + kLinesAhead < n) start(k + kLinesAhead);
    if (k + kRowsAhead < n) guess(k + kRowsAhead);
    if (k + kAgainAhead < n) guess_again(k + kAgainAhead);
    const uint64_t id = id_at(k);
    uint32_t slot = guesses[k % kRing];
    if (slot == BucketIndex::kNone || rows_.row(slot).id != id) {
      slot = index_.Find(hashes[k % kRing], [&](uint32_t s) { return rows_.row(s).id == id; });
    }
    if (slot == BucketIndex::kNone) {
      missed->push_back({part.position(k), Version(id)});
    } else {
      on_hit(part.position(k), slot);
    }
  }
}

void TableStripe::ScanCall(const TableCall& call, const StripePart& part,
                           std::vector<Missed>* missed) {
  const int64_t weights = sizeof(RowHeader) + core_.layout.weight_bytes();
  const int width = core_.layout.width();
  switch (call.kind) {
    case TableCall::kLookup:
      if (core_.layout.plain()) {  // The shortest loop there is, for the commonest call.
        const bool mark = core_.cold != nullptr;
        return Scan(call, part, weights, missed, [&](uint32_t p, uint32_t slot) {
          RowHeader& row = rows_.row(slot);
          if (mark && !row.has(kRowReferenced)) row.Set(kRowReferenced);
          CopyFloats(row.body(), width, &call.weights[static_cast<size_t>(p) * width]);
        });
      }
      return Scan(call, part, weights, missed,
                  [&](uint32_t p, uint32_t slot) { Hit(call, p, slot); });
    case TableCall::kCreate:
      return Scan(call, part, weights, missed,
                  [&](uint32_t p, uint32_t slot) { HitCreate(call, p, slot); });
    case TableCall::kGradients:
    case TableCall::kDeltas:
      return Scan(call, part, rows_.stride(), missed,
                  [&](uint32_t p, uint32_t slot) { HitStep(call, p, slot); });
    case TableCall::kPrefetch:
      return Scan(call, part, sizeof(RowHeader), missed,
                  [&](uint32_t, uint32_t slot) { rows_.row(slot).Set(kRowReferenced); });
  }
}

absl::Status TableStripe::Run(const TableCall& call, const StripePart& part,
                              std::vector<Missed>* missed) {
  absl::MutexLock lock(&mu_);
  const size_t before = missed->size();
  ScanCall(call, part, missed);
  const size_t misses = missed->size() - before;
  stats_.hits_memory += part.size - misses;
  absl::Status status;
  if (misses > 0 && rows_cold_ == 0) {
    status = Settle(call, std::span(*missed).subspan(before), nullptr, 0);
    missed->resize(before);
  }
  if (core_.dense && call.kind == TableCall::kGradients) StepOthers(call.lr_scale);
  return status;
}

absl::Status TableStripe::RunMissed(const TableCall& call, std::span<const Missed> missed,
                                    const ColdRows& rows, size_t first) {
  absl::MutexLock lock(&mu_);
  return Settle(call, missed, &rows, first);
}

absl::Status TableStripe::Settle(const TableCall& call, std::span<const Missed> missed,
                                 const ColdRows* rows, size_t first) {
  ColdRows again;
  bool unlocked = rows != nullptr;  // Since the ids were found to be missing.
  bool admitted = false;            // The id under way.
  for (size_t i = 0; i < missed.size();) {
    const uint32_t p = missed[i].position;
    const uint64_t id = call.ids[p];
    const uint32_t slot = unlocked ? FindSlot(id) : BucketIndex::kNone;
    if (slot != BucketIndex::kNone) {
      ++stats_.hits_memory;
      Hit(call, p, slot);
      ++i;
      admitted = false;
      continue;
    }
    const RowHeader* row = rows != nullptr ? rows->row(first + i) : nullptr;
    if (Version(id) != missed[i].version) {  // It was promoted and demoted meanwhile.
      RETURN_IF_ERROR(core_.cold->MultiGet({&id, 1}, &again));
      row = again.row(0);
    }
    // A refused id needs no room, and its sights are counted once.
    if (row == nullptr && call.kind == TableCall::kCreate && !admitted) {
      admitted = admission_.Admit(id, call.count(p));
    }
    const bool makes_row = row != nullptr ? call.kind != TableCall::kLookup : admitted;
    if (makes_row && Room() == 0) {
      RETURN_IF_ERROR(Reserve(static_cast<int64_t>(missed.size() - i)));
      unlocked = true;  // Perhaps: look again.
      continue;
    }
    if (row != nullptr) {
      FromCold(call, p, *row);
    } else {
      Absent(call, p, admitted);
    }
    ++i;
    admitted = false;
  }
  return absl::OkStatus();
}

void TableStripe::Hit(const TableCall& call, uint32_t p, uint32_t slot) {
  switch (call.kind) {
    case TableCall::kLookup:
      rows_.row(slot).Set(kRowReferenced);
      return core_.layout.ReadWeights(rows_.row(slot).body(),
                                      &call.weights[size_t{p} * core_.layout.width()]);
    case TableCall::kCreate:
      return HitCreate(call, p, slot);
    case TableCall::kGradients:
    case TableCall::kDeltas:
      return HitStep(call, p, slot);
    case TableCall::kPrefetch:
      return rows_.row(slot).Set(kRowReferenced);
  }
}

void TableStripe::HitCreate(const TableCall& call, uint32_t p, uint32_t slot) {
  RowHeader& row = rows_.row(slot);
  const int64_t event_time = call.event_time(p);
  BeforeChange(slot, &row);
  if (Expired(row.event_time, event_time)) {
    ++stats_.expired;
    row.event_time = 0;
    row.set_frequency(0);
    InitRow(&row);
  }
  row.set_frequency(uint64_t{row.frequency()} + call.count(p));
  if (event_time > row.event_time) {
    row.event_time = static_cast<uint32_t>(std::min<int64_t>(event_time, 0xFFFFFFFF));
  }
  Changed(&row);
  core_.layout.ReadWeights(row.body(), &call.weights[size_t{p} * core_.layout.width()]);
}

void TableStripe::HitStep(const TableCall& call, uint32_t p, uint32_t slot) {
  RowHeader& row = rows_.row(slot);
  const size_t width = core_.layout.width();
  BeforeChange(slot, &row);
  const std::span<const float> grad = call.grads.subspan(p * width, width);
  if (call.kind == TableCall::kDeltas) {
    core_.layout.AddDelta(core_.seed ^ row.id, row.body(), grad);
  } else {
    core_.layout.Step(call.lr_scale, core_.seed ^ row.id, row.body(), grad);
    if (core_.dense) row.Set(kRowStepped);
  }
  Changed(&row);
}

void TableStripe::FromCold(const TableCall& call, uint32_t p, const RowHeader& row) {
  ++stats_.hits_cold;
  if (call.kind == TableCall::kLookup) {
    core_.layout.ReadWeights(row.body(), &call.weights[size_t{p} * core_.layout.width()]);
    return;
  }
  Hit(call, p, Promote(row));
}

void TableStripe::Absent(const TableCall& call, uint32_t p, bool admitted) {
  const size_t width = core_.layout.width();
  ++stats_.misses;
  if (admitted) {
    const uint32_t slot = NewSlot(call.ids[p]);
    admission_.HasRow(call.ids[p]);
    InitRow(&rows_.row(slot));
    // Born in this epoch, before the change that HitCreate makes of it.
    rows_.row(slot).epoch = core_.epoch.load(std::memory_order_relaxed);
    return HitCreate(call, p, slot);
  }
  stats_.refused += call.kind == TableCall::kCreate;
  if (!call.weights.empty()) std::fill_n(&call.weights[p * width], width, 0.0f);
}

void TableStripe::InitRow(RowHeader* row) {
  core_.layout.Init(core_.seed, row->id, static_cast<float>(core_.dense ? steps_ : 0), row->body());
  ++stats_.created;
}

void TableStripe::StepOthers(float lr_scale) {
  const std::vector<float> zeros(core_.layout.width(), 0.0f);
  for (uint32_t slot = 0; slot < rows_.slots(); ++slot) {
    RowHeader& row = rows_.row(slot);
    if (row.has(kRowUsed) && !row.has(kRowStepped)) {
      BeforeChange(slot, &row);
      core_.layout.Step(lr_scale, core_.seed ^ row.id, row.body(), zeros);
      Changed(&row);
    }
    row.Clear(kRowStepped);
  }
  ++steps_;
}

absl::Status TableStripe::Put(const RowRecord& record) {
  if (record.tombstone) return Erase({&record.id, 1});
  absl::MutexLock lock(&mu_);
  while (Room() == 0) RETURN_IF_ERROR(Reserve(1));
  uint32_t slot = FindSlot(record.id);
  if (slot == BucketIndex::kNone) {
    slot = NewSlot(record.id);
    if (rows_cold_ > 0) {  // An older copy is outdated from here on.
      ColdRows cold;
      RETURN_IF_ERROR(core_.cold->MultiGet({&record.id, 1}, &cold));
      if (cold.row(0) != nullptr) {
        rows_.row(slot).Set(kRowInCold);
        --rows_cold_;
      }
    }
  }
  RowHeader& row = rows_.row(slot);
  row.set_meta(record.meta);
  row.Set(kRowDirty);
  core_.layout.Pack(record.floats, row.body());
  return absl::OkStatus();
}

bool TableStripe::Expired(uint32_t row_time, int64_t event_time) const {
  if (core_.ttl <= 0 || row_time == 0 || event_time == 0) return false;
  return static_cast<double>(event_time - row_time) > core_.ttl;
}

int64_t TableStripe::bytes() const { return rows_.bytes() + index_.bytes() + admission_.bytes(); }

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
  stats->hits_memory += stats_.hits_memory;
  stats->hits_cold += stats_.hits_cold;
  stats->misses += stats_.misses;
  stats->created += stats_.created;
  stats->refused += stats_.refused;
  stats->expired += stats_.expired;
  stats->evicted += stats_.evicted;
  stats->erased += stats_.erased;
  stats->demoted += stats_.demoted;
  stats->promoted += stats_.promoted;
}

}  // namespace starling
