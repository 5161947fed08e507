#include "embedding_store/table_stripe.h"

#include <algorithm>

#include "base/status.h"

namespace starling {
namespace {

// Ids are taken in groups, a step of the search for a whole group at a time.
// The loops are kept short: a prefetch waits for its address to be translated,
// and only what the processor sees at once waits together.
constexpr size_t kGroup = 16;

}  // namespace

TableStripe::TableStripe(TableCore* core)
    : core_(*core),
      index_(core->arena.get(), std::clamp<int64_t>(core->share / 64, 4 << 10, 64 << 10)),
      rows_(core->layout.body_bytes(), core->arena.get(),
            std::clamp<int64_t>(core->share / 16, 4 << 10, 128 << 10)),
      admission_(core->spec.options().admit(), core->seed, core->admission_bytes) {
  rows_.Grow();
  core_.bytes += bytes();
}

uint32_t TableStripe::FindSlot(uint64_t id) const {
  return index_.Find(BucketIndex::HashOf(id),
                     [this, id](uint32_t slot) { return rows_.row(slot).id == id; });
}

template <typename OnHit>
void TableStripe::Scan(const StripePart& part, int64_t bytes, std::vector<Missed>* missed,
                       const OnHit& on_hit) {
  const size_t n = part.ids.size();
  const uint64_t* const ids = part.ids.data();
  // Of three groups: one is used, the next waits for rows, the one after for index lines.
  BucketIndex::Probe probes[4][kGroup];
  uint32_t guesses[2][kGroup];
  auto prefetch = [&](uint32_t slot) { rows_.Prefetch(slot, bytes); };
  auto begin = [&](size_t group) {
    const size_t first = group * kGroup;
    const size_t size = first < n ? std::min(kGroup, n - first) : 0;
    for (size_t i = 0; i < size; ++i) probes[group % 4][i] = index_.Begin(ids[first + i]);
  };
  auto guess = [&](size_t group) {
    const size_t first = group * kGroup;
    const size_t size = first < n ? std::min(kGroup, n - first) : 0;
    uint32_t* const slots = guesses[group % 2];
    bool sure[kGroup];
    for (size_t i = 0; i < size; ++i) slots[i] = index_.Guess(probes[group % 4][i], &sure[i]);
    for (size_t i = 0; i < size; ++i) {
      if (sure[i]) [[likely]] {
        prefetch(slots[i]);
      } else {
        index_.Others(probes[group % 4][i], prefetch);
      }
    }
  };
  auto use = [&](size_t group) {
    const size_t first = group * kGroup;
    const size_t size = std::min(kGroup, n - first);
    uint32_t* const slots = guesses[group % 2];
    bool right[kGroup];
    // Without a branch: rows that are still under way are waited for together.
    for (size_t i = 0; i < size; ++i) {
      right[i] = slots[i] != BucketIndex::kNone;
      right[i] &= rows_.row(right[i] ? slots[i] : 0).id == ids[first + i];
    }
    for (size_t i = 0; i < size; ++i) {
      const uint64_t id = ids[first + i];
      if (!right[i]) [[unlikely]] {
        slots[i] = index_.Find(probes[group % 4][i].hash,
                               [&](uint32_t s) { return rows_.row(s).id == id; });
        if (slots[i] == BucketIndex::kNone) {
          missed->push_back({part.position(first + i), Version(id)});
          continue;
        }
      }
      on_hit(part.position(first + i), slots[i]);
    }
  };
  const size_t groups = (n + kGroup - 1) / kGroup;
  begin(0);
  begin(1);
  guess(0);
  for (size_t group = 0; group < groups; ++group) {
    begin(group + 2);
    guess(group + 1);
    use(group);
  }
}

void TableStripe::ScanCall(const TableCall& call, const StripePart& part,
                           std::vector<Missed>* missed) {
  const int64_t weights = sizeof(RowHeader) + core_.layout.weight_bytes();
  const int width = core_.layout.width();
  switch (call.kind) {
    case TableCall::kLookup:
      if (core_.layout.plain() && core_.cold == nullptr) {  // The commonest call, at its shortest.
        float* const out = call.weights.data();
        auto copy_with = [&](auto copy) {
          Scan(part, weights, missed, [&](uint32_t p, uint32_t slot) {
            copy(rows_.row(slot).body(), out + size_t{p} * width);
          });
        };
        switch (width) {  // A known width unrolls.
          case 8:
            return copy_with([](const char* from, float* to) { CopyFloats(from, 8, to); });
          case 16:
            return copy_with([](const char* from, float* to) { CopyFloats(from, 16, to); });
          case 32:
            return copy_with([](const char* from, float* to) { CopyFloats(from, 32, to); });
          default:
            return copy_with([&](const char* from, float* to) { CopyFloats(from, width, to); });
        }
      }
      return Scan(part, weights, missed, [&](uint32_t p, uint32_t slot) { Hit(call, p, slot); });
    case TableCall::kCreate:
      return Scan(part, weights, missed,
                  [&](uint32_t p, uint32_t slot) { HitCreate(call, p, slot); });
    case TableCall::kGradients:
    case TableCall::kDeltas:
      return Scan(part, rows_.stride(), missed,
                  [&](uint32_t p, uint32_t slot) { HitStep(call, p, slot); });
    case TableCall::kPrefetch:
      return Scan(part, sizeof(RowHeader), missed,
                  [&](uint32_t, uint32_t slot) { rows_.row(slot).Set(kRowReferenced); });
  }
}

absl::Status TableStripe::Run(const TableCall& call, const StripePart& part,
                              std::vector<Missed>* missed) {
  if (call.kind != TableCall::kLookup) {
    absl::MutexLock lock(&mu_);
    return RunLocked(call, part, missed);
  }
  absl::ReaderMutexLock lock(&mu_);
  return RunLocked(call, part, missed);
}

absl::Status TableStripe::RunLocked(const TableCall& call, const StripePart& part,
                                    std::vector<Missed>* missed) {
  const size_t before = missed->size();
  ScanCall(call, part, missed);
  const size_t misses = missed->size() - before;
  hits_memory_.fetch_add(static_cast<int64_t>(part.ids.size() - misses), std::memory_order_relaxed);
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
  if (call.kind != TableCall::kLookup) {
    absl::MutexLock lock(&mu_);
    return Settle(call, missed, &rows, first);
  }
  absl::ReaderMutexLock lock(&mu_);
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
      hits_memory_.fetch_add(1, std::memory_order_relaxed);
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
      RETURN_IF_ERROR(Reserve());
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
      rows_.row(slot).SetShared(kRowReferenced);
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
  hits_cold_.fetch_add(1, std::memory_order_relaxed);
  if (call.kind == TableCall::kLookup) {
    core_.layout.ReadWeights(row.body(), &call.weights[size_t{p} * core_.layout.width()]);
    return;
  }
  Hit(call, p, Promote(row));
}

void TableStripe::Absent(const TableCall& call, uint32_t p, bool admitted) {
  const size_t width = core_.layout.width();
  misses_.fetch_add(1, std::memory_order_relaxed);
  if (admitted) {
    const uint32_t slot = NewSlot(call.ids[p]);
    admission_.HasRow(call.ids[p]);
    InitRow(&rows_.row(slot));
    // Born in this epoch, before the change that HitCreate makes of it.
    rows_.row(slot).epoch = core_.epoch.load(std::memory_order_relaxed);
    return HitCreate(call, p, slot);
  }
  if (call.kind == TableCall::kCreate) ++stats_.refused;
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
  RETURN_IF_ERROR(Reserve());
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
