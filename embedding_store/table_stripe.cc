#include "embedding_store/table_stripe.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/status.h"
#include "base/sync_point.h"

namespace starling {
namespace {

constexpr size_t kLinesAhead = 12;     // Index lines under way while one is searched.
constexpr size_t kColdReadMax = 1024;  // Rows of one MultiGet: bounds its memory.
constexpr int64_t kDemoteMax = 256;    // Rows of one demotion.

uint32_t CountAt(std::span<const uint32_t> counts, uint32_t p) {
  return counts.empty() ? 1 : counts[p];
}
int64_t TimeAt(std::span<const int64_t> times, uint32_t p) { return times.empty() ? 0 : times[p]; }

}  // namespace

TableStripe::TableStripe(TableCore* core)
    : core_(*core),
      rows_(core->layout.floats(), core->chunk_rows),
      admission_(core->spec.options().admit(), core->seed, core->admission_bytes) {
  core_.bytes += index_.bytes() + admission_.bytes();
}

absl::Status TableStripe::Lookup(const StripeBatch& batch, std::span<float> weights) {
  const size_t width = core_.layout.width();
  absl::MutexLock lock(&mu_);
  Find(batch, static_cast<int>(width));
  for (size_t k = 0; k < batch.positions.size(); ++k) {
    if (slots_[k] == BucketIndex::kNone) continue;
    Row& row = rows_.row(slots_[k]);
    row.flags |= kRowReferenced;
    std::memcpy(&weights[batch.positions[k] * width], row.data(), width * sizeof(float));
  }
  stats_.hits_memory += batch.positions.size() - missed_.size();
  return VisitMissed(batch.ids, [&](uint32_t p, const RowMeta* meta, std::span<const float> row) {
    float* out = &weights[p * width];
    ++(meta != nullptr ? stats_.hits_cold : stats_.misses);
    if (meta != nullptr) std::copy_n(row.begin(), width, out);
    if (meta == nullptr) std::fill_n(out, width, 0.0f);
    return absl::OkStatus();
  });
}

absl::Status TableStripe::LookupOrCreate(const StripeBatch& batch, std::span<const uint32_t> counts,
                                         std::span<const int64_t> event_times,
                                         std::span<float> weights) {
  const size_t width = core_.layout.width();
  absl::MutexLock lock(&mu_);
  // Ends one access: the row, or zeros for a refused id.
  auto finish = [&](uint32_t p, uint32_t slot) {
    float* out = &weights[p * width];
    if (slot == BucketIndex::kNone) {
      std::fill_n(out, width, 0.0f);
      return;
    }
    Touch(slot, CountAt(counts, p), TimeAt(event_times, p));
    std::memcpy(out, rows_.row(slot).data(), width * sizeof(float));
  };
  Find(batch, static_cast<int>(width));
  for (size_t k = 0; k < batch.positions.size(); ++k) {
    const uint32_t p = batch.positions[k];
    uint32_t slot = slots_[k];
    if (slot == BucketIndex::kNone) continue;
    if (Expired(rows_.row(slot).meta, TimeAt(event_times, p))) {
      ASSIGN_OR_RETURN(slot, Renew(slot, CountAt(counts, p)));
    } else {
      ++stats_.hits_memory;
    }
    finish(p, slot);
  }
  return VisitMissed(batch.ids, [&](uint32_t p, const RowMeta* meta, std::span<const float> row) {
    const bool expired = meta != nullptr && Expired(*meta, TimeAt(event_times, p));
    const bool live = meta != nullptr && !expired;
    stats_.expired += expired;
    stats_.hits_cold += live;
    ASSIGN_OR_RETURN(uint32_t slot, live ? Promote(batch.ids[p], *meta, row)
                                         : Admit(batch.ids[p], CountAt(counts, p), expired));
    finish(p, slot);
    return absl::OkStatus();
  });
}

absl::Status TableStripe::ApplyGradients(const StripeBatch& batch, std::span<const float> grads,
                                         float lr_scale) {
  const size_t width = core_.layout.width();
  absl::MutexLock lock(&mu_);
  Find(batch, core_.layout.floats());
  for (size_t k = 0; k < batch.positions.size(); ++k) {
    if (slots_[k] == BucketIndex::kNone) continue;
    Step(slots_[k], grads.subspan(batch.positions[k] * width, width), lr_scale);
  }
  RETURN_IF_ERROR(VisitMissed(
      batch.ids, [&](uint32_t p, const RowMeta* meta, std::span<const float> row) -> absl::Status {
        if (meta == nullptr) return absl::OkStatus();
        ASSIGN_OR_RETURN(uint32_t slot, Promote(batch.ids[p], *meta, row));
        Step(slot, grads.subspan(p * width, width), lr_scale);
        return absl::OkStatus();
      }));
  if (core_.dense) StepOthers(lr_scale);
  return absl::OkStatus();
}

absl::Status TableStripe::Prefetch(const StripeBatch& batch) {
  absl::MutexLock lock(&mu_);
  Find(batch, 0);
  return VisitMissed(batch.ids, [&](uint32_t p, const RowMeta* meta, std::span<const float> row) {
    return meta == nullptr ? absl::OkStatus() : Promote(batch.ids[p], *meta, row).status();
  });
}

absl::Status TableStripe::Erase(const StripeBatch& batch) {
  absl::MutexLock lock(&mu_);
  Find(batch, 0);
  std::vector<uint64_t> cold;  // Every id with a copy in the cold tier.
  for (uint32_t slot : slots_) {
    if (slot == BucketIndex::kNone) continue;
    if (rows_.row(slot).flags & kRowInCold) cold.push_back(rows_.row(slot).id);
  }
  const size_t also_hot = cold.size();
  RETURN_IF_ERROR(
      VisitMissed(batch.ids, [&](uint32_t p, const RowMeta* meta, std::span<const float>) {
        if (meta != nullptr) cold.push_back(batch.ids[p]);
        return absl::OkStatus();
      }));
  if (!cold.empty()) RETURN_IF_ERROR(core_.cold->Delete(cold));
  rows_cold_ -= static_cast<int64_t>(cold.size() - also_hot);
  for (uint32_t slot : slots_) {
    if (slot != BucketIndex::kNone) FreeSlot(slot);
  }
  return absl::OkStatus();
}

absl::Status TableStripe::Put(const RowRecord& record) {
  const uint32_t position = 0;
  const StripeBatch batch{{&record.id, 1}, {&position, 1}};
  if (record.tombstone) return Erase(batch);
  absl::MutexLock lock(&mu_);
  Find(batch, 0);
  uint32_t slot = slots_[0];
  RETURN_IF_ERROR(VisitMissed(
      batch.ids, [&](uint32_t, const RowMeta* meta, std::span<const float> row) -> absl::Status {
        ASSIGN_OR_RETURN(slot,
                         meta != nullptr ? Promote(record.id, *meta, row) : NewSlot(record.id));
        return absl::OkStatus();
      }));
  rows_.row(slot).meta = record.meta;
  std::copy(record.floats.begin(), record.floats.end(), rows_.row(slot).data());
  return absl::OkStatus();
}

void TableStripe::Find(const StripeBatch& batch, int floats) {
  const size_t n = batch.positions.size();
  slots_.resize(n);
  missed_.clear();
  auto id = [&batch](size_t k) { return batch.ids[batch.positions[k]]; };
  for (size_t k = 0; k < std::min(n, kLinesAhead); ++k) index_.Prefetch(id(k));
  for (size_t k = 0; k < n; ++k) {
    if (k + kLinesAhead < n) index_.Prefetch(id(k + kLinesAhead));
    slots_[k] = index_.Find(id(k));
    if (slots_[k] == BucketIndex::kNone) {
      missed_.push_back(batch.positions[k]);
    } else {
      rows_.Prefetch(slots_[k], floats);
    }
  }
}

absl::Status TableStripe::VisitMissed(std::span<const uint64_t> ids, const Visit& visit) {
  std::vector<uint64_t> wanted;
  for (size_t begin = 0; begin < missed_.size(); begin += kColdReadMax) {
    auto slice = std::span(missed_).subspan(begin, std::min(kColdReadMax, missed_.size() - begin));
    // Rows demoted by a visit are never among those still to be visited.
    if (rows_cold_ == 0) {
      for (uint32_t p : slice) RETURN_IF_ERROR(visit(p, nullptr, {}));
      continue;
    }
    wanted.clear();
    for (uint32_t p : slice) wanted.push_back(ids[p]);
    RETURN_IF_ERROR(core_.cold->MultiGet(
        wanted, [&](size_t i, const RowMeta* meta, std::span<const float> row) {
          return visit(slice[i], meta, row);
        }));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> TableStripe::NewSlot(uint64_t id) {
  RETURN_IF_ERROR(MakeRoom());
  uint32_t slot = rows_.Allocate(id);
  rows_.row(slot).flags |= kRowReferenced;
  index_.Insert(id, slot);
  return slot;
}

absl::Status TableStripe::MakeRoom() {
  const int64_t need = rows_.growth_bytes() + index_.growth_bytes();
  if (need == 0) return absl::OkStatus();
  if (core_.cold != nullptr) {
    if (bytes() + need > core_.budget / kStripes) return Demote();
    core_.bytes += need;
    return absl::OkStatus();
  }
  if (core_.bytes.fetch_add(need) + need <= core_.budget) return absl::OkStatus();
  core_.bytes -= need;
  return absl::ResourceExhaustedError(absl::StrCat(
      "table ", core_.spec.options().name(), ": its ", core_.budget,
      " bytes of memory are full; raise the table's memory",
      core_.dense ? " (update: dense keeps every row there)" : ", or set tier: rocksdb"));
}

absl::Status TableStripe::Demote() {
  const size_t wanted = std::clamp<int64_t>(rows_.rows() / 8, 1, kDemoteMax);
  std::vector<uint32_t> victims;
  std::vector<ColdTier::Row> out;
  // Two rounds at most: the first takes the mark from every row, the second finds them unmarked.
  for (uint32_t looked = 0; looked < 2 * rows_.slots() && out.size() < wanted; ++looked) {
    const uint32_t slot = hand_;
    hand_ = hand_ + 1 < rows_.slots() ? hand_ + 1 : 0;
    Row& row = rows_.row(slot);
    if (!(row.flags & kRowUsed)) continue;
    if (row.flags & kRowReferenced) {
      row.flags &= ~kRowReferenced;
      continue;
    }
    row.flags |= kRowReferenced;  // So that the second round does not take it again.
    victims.push_back(slot);
    out.push_back({row.id, &row.meta, rows_.floats(slot)});
  }
  RETURN_IF_ERROR(core_.cold->Write(out));
  for (uint32_t slot : victims) FreeSlot(slot);
  rows_cold_ += static_cast<int64_t>(victims.size());
  stats_.demoted += static_cast<int64_t>(victims.size());
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> TableStripe::Promote(uint64_t id, const RowMeta& meta,
                                              std::span<const float> floats) {
  STARLING_SYNC_POINT("store.promote");
  ASSIGN_OR_RETURN(uint32_t slot, NewSlot(id));
  Row& row = rows_.row(slot);
  row.meta = meta;
  row.flags |= kRowInCold;
  std::copy(floats.begin(), floats.end(), row.data());
  --rows_cold_;
  ++stats_.promoted;
  return slot;
}

absl::StatusOr<uint32_t> TableStripe::Admit(uint64_t id, uint32_t count, bool cold) {
  ++stats_.misses;
  if (!admission_.Admit(id, count)) {
    ++stats_.refused;
    if (cold) {
      RETURN_IF_ERROR(core_.cold->Delete({&id, 1}));
      --rows_cold_;
    }
    return BucketIndex::kNone;
  }
  ASSIGN_OR_RETURN(uint32_t slot, NewSlot(id));
  if (cold) {
    rows_.row(slot).flags |= kRowInCold;
    --rows_cold_;
  }
  InitSlot(slot);
  return slot;
}

absl::StatusOr<uint32_t> TableStripe::Renew(uint32_t slot, uint32_t count) {
  ++stats_.misses;
  ++stats_.expired;
  Row& row = rows_.row(slot);
  if (admission_.Admit(row.id, count)) {
    row.meta = RowMeta{};
    InitSlot(slot);
    return slot;
  }
  ++stats_.refused;
  if (row.flags & kRowInCold) RETURN_IF_ERROR(core_.cold->Delete({&row.id, 1}));
  FreeSlot(slot);
  return BucketIndex::kNone;
}

void TableStripe::InitSlot(uint32_t slot) {
  std::span<float> floats = rows_.floats(slot);
  core_.layout.InitRow(core_.seed, rows_.row(slot).id, floats);
  ++stats_.created;
  // One step count for the whole table: a late row has missed these steps.
  if (core_.dense) core_.layout.SetSteps(static_cast<float>(steps_), floats);
}

void TableStripe::Touch(uint32_t slot, uint32_t count, int64_t event_time) {
  Row& row = rows_.row(slot);
  row.flags |= kRowReferenced;
  row.meta.frequency += std::min(count, std::numeric_limits<uint32_t>::max() - row.meta.frequency);
  row.meta.event_time = std::max(row.meta.event_time, event_time);
  row.meta.epoch = core_.epoch.load(std::memory_order_relaxed);
}

void TableStripe::Step(uint32_t slot, std::span<const float> grad, float lr_scale) {
  Row& row = rows_.row(slot);
  row.flags |= core_.dense ? kRowReferenced | kRowStepped : kRowReferenced;
  row.meta.epoch = core_.epoch.load(std::memory_order_relaxed);
  core_.layout.Apply(lr_scale, rows_.floats(slot), grad);
}

void TableStripe::StepOthers(float lr_scale) {
  const std::vector<float> zeros(core_.layout.width(), 0.0f);
  for (uint32_t slot = 0; slot < rows_.slots(); ++slot) {
    const uint32_t flags = rows_.row(slot).flags;
    if ((flags & kRowUsed) && !(flags & kRowStepped)) Step(slot, zeros, lr_scale);
    rows_.row(slot).flags &= ~kRowStepped;
  }
  ++steps_;
}

void TableStripe::FreeSlot(uint32_t slot) {
  index_.Erase(rows_.row(slot).id);
  rows_.Free(slot);
}

bool TableStripe::Expired(const RowMeta& meta, int64_t event_time) const {
  if (core_.ttl <= 0 || meta.event_time == 0 || event_time == 0) return false;
  return static_cast<double>(event_time - meta.event_time) > core_.ttl;
}

int64_t TableStripe::bytes() const { return rows_.bytes() + index_.bytes() + admission_.bytes(); }

TableStripe::Order TableStripe::OrderByBucket() {
  absl::MutexLock lock(&mu_);
  auto used = [this](uint32_t slot) { return (rows_.row(slot).flags & kRowUsed) != 0; };
  auto part = [this](uint32_t slot) { return BucketOf(rows_.row(slot).id) / kStripes; };
  Order order;
  order.offsets.fill(0);
  for (uint32_t s = 0; s < rows_.slots(); ++s) {
    if (used(s)) ++order.offsets[part(s) + 1];
  }
  for (uint32_t b = 0; b < kBucketsPerStripe; ++b) order.offsets[b + 1] += order.offsets[b];
  order.slots.resize(rows_.rows());
  std::array<uint32_t, kBucketsPerStripe + 1> next = order.offsets;
  for (uint32_t s = 0; s < rows_.slots(); ++s) {
    if (used(s)) order.slots[next[part(s)]++] = s;
  }
  return order;
}

absl::Status TableStripe::EmitBucket(uint32_t bucket, const Order& order, ColdTier::Cursor* cold,
                                     const RowFn& fn) {
  const uint32_t part = bucket / kStripes;
  absl::MutexLock lock(&mu_);
  std::vector<std::pair<uint64_t, uint32_t>> hot;
  for (uint32_t i = order.offsets[part]; i < order.offsets[part + 1]; ++i) {
    hot.emplace_back(rows_.row(order.slots[i]).id, order.slots[i]);
  }
  std::sort(hot.begin(), hot.end());
  auto cold_here = [&] { return cold->Valid() && BucketOf(cold->id()) == bucket; };
  for (auto it = hot.begin(); it != hot.end() || cold_here();) {
    if (cold_here() && (it == hot.end() || cold->id() < it->first)) {
      RETURN_IF_ERROR(fn(cold->id(), cold->meta(), cold->floats()));
      cold->Next();
      continue;
    }
    if (cold_here() && cold->id() == it->first) cold->Next();  // Outdated: memory wins.
    RETURN_IF_ERROR(fn(it->first, rows_.row(it->second).meta, rows_.floats(it->second)));
    ++it;
  }
  return cold->status();
}

absl::Status TableStripe::MergeAdmission(absl::string_view state) {
  absl::MutexLock lock(&mu_);
  return admission_.Merge(state);
}

void TableStripe::AppendAdmission(std::string* out) {
  absl::MutexLock lock(&mu_);
  absl::string_view state = admission_.Serialize();
  out->append(state.data(), state.size());
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
  stats->demoted += stats_.demoted;
  stats->promoted += stats_.promoted;
}

}  // namespace starling
