#include "embedding_store/table_stripe.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <type_traits>

#include "absl/time/clock.h"
#include "base/status.h"
#include "embedding_store/stripe_scan.h"

namespace starling {
namespace {

constexpr int64_t kNotesPart = 32;   // One in so many bytes of a stripe is for notes of ids,
constexpr int64_t kNotesMax = 4096;  // and of no more ids than a few batches bring.

// Calls fn(width, lines of a row from kBegin to the end of its weights), where width is a number
// that is known when this is compiled if the weights are that many floats, and an int otherwise.
template <int64_t kBegin, typename Fn>
void WithWidth(const RowLayout& layout, const Fn& fn) {
  const int64_t end = int64_t{sizeof(RowHeader)} + layout.weight_bytes();
  auto known = [&]<int kWidth>(std::integral_constant<int, kWidth> width) {
    fn(width, RowLines<kBegin, StepsOf(sizeof(RowHeader) + 4 * kWidth - kBegin)>{end});
  };
  switch (layout.plain() ? layout.width() : 0) {
    case 8:
      return known(std::integral_constant<int, 8>());
    case 16:
      return known(std::integral_constant<int, 16>());
    case 32:
      return known(std::integral_constant<int, 32>());
    default:
      return WithRowLines<kBegin>(end, [&](auto lines) { fn(layout.width(), lines); });
  }
}

// Of a row, all of them.
template <typename Width>
[[gnu::always_inline]] inline void CopyWeights(const RowLayout& layout, Width width,
                                               const RowHeader& row, float* weights) {
  if constexpr (std::is_same_v<Width, int>) {
    layout.ReadWeights(row.body(), weights);
  } else {
    CopyFloats(row.body(), width, weights);
  }
}

}  // namespace

// Taken out of the call and the stripe, so that the loop over its rows is short.
struct TableStripe::Pulled {
  const uint32_t* counts = nullptr;      // Null: 1 each.
  const int64_t* event_times = nullptr;  // Null: unknown.
  uint32_t* places = nullptr;            // Null: nobody asks.
  float* weights = nullptr;
  uint32_t epoch = 0;
  const RowHeader* aside_from = nullptr;  // From here on a snapshot may want rows first.
};
struct TableStripe::Stepped {
  const float* grads = nullptr;
  size_t width = 0;
  uint32_t flags = 0;  // Of a row that took its step.
  uint32_t epoch = 0;
  const RowHeader* aside_from = nullptr;
};

class TableStripe::StepBlock {
 public:
  StepBlock(const TableCore& core, float lr_scale)
      : layout_(core.layout), seed_(core.seed), lr_scale_(lr_scale), plain_(layout_.plain()) {}
  ~StepBlock() { Step(); }
  StepBlock(const StepBlock&) = delete;
  StepBlock& operator=(const StepBlock&) = delete;
  [[gnu::always_inline]] void Add(RowHeader* row, const float* grad) {
    if (!plain_) return layout_.Step(lr_scale_, seed_ ^ row->id, row->body(), grad);
    rows_[count_++] = layout_.PlainRow(row->body(), grad);
    if (count_ == rows_.size()) Step();
  }

 private:
  void Step() {
    if (count_ > 0) layout_.StepPlain(lr_scale_, std::span(rows_).first(count_));
    count_ = 0;
  }
  const RowLayout& layout_;
  const uint64_t seed_;
  const float lr_scale_;
  const bool plain_;
  size_t count_ = 0;
  std::array<RowToStep, 16> rows_;
};

TableStripe::TableStripe(TableCore* core)
    : core_(*core),
      index_(core->arena->Cut(core->index_reserve),
             std::clamp<int64_t>(core->share / 64, 4 << 10, 64 << 10), core->stripe_bits),
      rows_(core->layout.body_bytes(), core->arena->Cut(core->rows_reserve),
            std::clamp<int64_t>(core->share / 16, 4 << 10, 128 << 10)),
      admission_(core->spec.options().admit(), core->seed, core->admission_bytes) {
  // A filter may decide by the order of new ids, which must not depend on what was prefetched.
  if (core->cold != nullptr && admission_.bytes() == 0) {
    nowhere_.resize(std::bit_floor<uint64_t>(
        std::min<int64_t>(core->share / kNotesPart / sizeof(uint64_t), kNotesMax)));
  }
  rows_.Grow();
  core_.bytes += bytes();
}

uint32_t TableStripe::FindSlot(uint64_t id) const {
  return index_.view().Find(BucketIndex::HashOf(id),
                            [this, id](uint32_t slot) { return rows_.row(slot).id == id; });
}

template <typename Where, typename Lines, typename OnHit>
void TableStripe::Scan(Where where, const StripePart& part, Lines used, std::vector<Missed>* missed,
                       const OnHit& on_hit) {
  auto on_miss = [&](size_t k) { missed->push_back({part.position(k), Version(part.ids[k])}); };
  if (part.positions.empty()) {
    ScanRows(
        where, index_, rows_, part.ids, used,
        [ on_hit, first = part.first ](size_t k, RowHeader * row)
            __attribute__((always_inline)) { on_hit(first + k, row); },
        on_miss);
  } else {
    ScanRows(
        InIndex(), index_, rows_, part.ids, used,
        [ on_hit, positions = part.positions.data() ](size_t k, RowHeader * row)
            __attribute__((always_inline)) { on_hit(positions[k], row); },
        on_miss);
  }
}

void TableStripe::ScanLookup(const TableCall& call, const StripePart& part,
                             std::vector<Missed>* missed) {
  float* const out = call.weights.data();
  WithWidth<offsetof(RowHeader, id)>(core_.layout, [&](auto width, auto lines) {
    auto copy = [ this, out, width ](size_t p, RowHeader * row) __attribute__((always_inline)) {
      CopyWeights(core_.layout, width, *row, out + p * width);
    };
    auto mark_and_copy = [copy](size_t p, RowHeader* row) {
      row->SetShared(kRowReferenced);
      copy(p, row);
    };
    if (core_.cold == nullptr) {
      Scan(InIndex(), part, lines, missed, copy);
    } else {
      Scan(InIndex(), part, lines, missed, mark_and_copy);
    }
  });
}

void TableStripe::ScanCreate(const TableCall& call, const StripePart& part,
                             std::vector<Missed>* missed) {
  WithWidth<0>(core_.layout, [&](auto width, auto lines) {
    auto create = [ this, pulled = PulledOf(call), width ](uint32_t p, RowHeader * row)
        __attribute__((always_inline)) {
      HitCreate(pulled, width, p, row);
    };
    Scan(InIndex(), part, lines, missed, create);
  });
}

void TableStripe::ScanSteps(const TableCall& call, const StripePart& part,
                            std::vector<Missed>* missed) {
  StepBlock steps(core_, call.lr_scale);
  auto step = [ this, stepped = SteppedOf(call), &steps ](uint32_t p, RowHeader * row)
      __attribute__((always_inline)) {
    HitStep(stepped, p, row, &steps);
  };
  WithRowLines<0>(rows_.stride(), [&](auto lines) {
    if (call.places.empty()) return Scan(InIndex(), part, lines, missed, step);
    Scan(AtPlaces{call.places.data() + part.first}, part, lines, missed, step);
  });
}

void TableStripe::ScanCall(const TableCall& call, const StripePart& part,
                           std::vector<Missed>* missed) {
  switch (call.kind) {
    case TableCall::kLookup:
      return ScanLookup(call, part, missed);
    case TableCall::kCreate:
      return ScanCreate(call, part, missed);
    case TableCall::kGradients:
      return ScanSteps(call, part, missed);
    case TableCall::kDeltas:
      return WithRowLines<0>(rows_.stride(), [&](auto lines) {
        Scan(InIndex(), part, lines, missed,
             [&](uint32_t p, RowHeader* row) { HitDelta(call, p, row); });
      });
    case TableCall::kPrefetch:
      return Scan(InIndex(), part, RowLines<0, 1>{sizeof(RowHeader)}, missed,
                  [](uint32_t, RowHeader* row) { row->Set(kRowReferenced | kRowAwaited); });
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
  if (call.kind == TableCall::kPrefetch && rows_cold_ == 0) return absl::OkStatus();
  const size_t before = missed->size();
  const uint32_t slots = rows_.slots();
  const int64_t started = absl::GetCurrentTimeNanos();
  ScanCall(call, part, missed);
  const size_t misses = missed->size() - before;
  hits_memory_.fetch_add(static_cast<int64_t>(part.ids.size() - misses), std::memory_order_relaxed);
  absl::Status status;
  if (misses > 0) {
    const auto first = missed->begin() + static_cast<int64_t>(before);
    const auto nowhere =
        rows_cold_ == 0 ? first : std::stable_partition(first, missed->end(), [&](const Missed& m) {
          return !KnownNowhere(call.ids[m.position]);
        });
    status = Settle(call, {nowhere, missed->end()}, nullptr, 0);
    missed->erase(nowhere, missed->end());
  }
  if (core_.dense && call.kind == TableCall::kGradients) StepOthers(call.lr_scale);
  if (call.kind == TableCall::kCreate && rows_.HasFullPages()) {
    MakeHuge(started, rows_.slots() - slots, part.ids.size());
  }
  return status;
}

void TableStripe::MakeHuge(int64_t started_ns, uint64_t made, uint64_t ids) {
  const int64_t now = absl::GetCurrentTimeNanos();
  core_.huge_time.Earn(now - started_ns, made > 0);
  // Not while many rows are made: every new page would wait for it.
  if (!core_.huge_time.left() || made * 8 > ids) return;
  rows_.MakeHuge();
  core_.huge_time.Spend(absl::GetCurrentTimeNanos() - now);
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
  constexpr size_t kAhead = 8;      // Index lines of new rows: the scan was here a while ago.
  for (size_t i = 0; i < missed.size();) {
    if (i + kAhead < missed.size()) {
      const uint64_t hash = BucketIndex::HashOf(call.ids[missed[i + kAhead].position]);
      PrefetchLine(index_.view().HomeLine(hash));
    }
    const uint32_t p = missed[i].position;
    const uint64_t id = call.ids[p];
    const uint32_t slot = unlocked ? FindSlot(id) : BucketIndex::kNone;
    if (slot != BucketIndex::kNone) {
      hits_memory_.fetch_add(1, std::memory_order_relaxed);
      Hit(call, p, &rows_.row(slot));
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
    if (makes_row && !GrowToRoom()) {
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

void TableStripe::Hit(const TableCall& call, uint32_t p, RowHeader* row) {
  switch (call.kind) {
    case TableCall::kLookup:
      row->SetShared(kRowReferenced);
      return core_.layout.ReadWeights(row->body(), &call.weights[size_t{p} * core_.layout.width()]);
    case TableCall::kCreate:
      return HitCreate(PulledOf(call), core_.layout.width(), p, row);
    case TableCall::kGradients: {
      StepBlock steps(core_, call.lr_scale);
      return HitStep(SteppedOf(call), p, row, &steps);
    }
    case TableCall::kDeltas:
      return HitDelta(call, p, row);
    case TableCall::kPrefetch:
      return row->Set(kRowReferenced | kRowAwaited);
  }
}

TableStripe::Pulled TableStripe::PulledOf(const TableCall& call) const {
  Pulled pulled;
  if (!call.counts.empty()) pulled.counts = call.counts.data();
  if (!call.event_times.empty()) pulled.event_times = call.event_times.data();
  if (!call.places_out.empty()) pulled.places = call.places_out.data();
  pulled.weights = call.weights.data();
  pulled.epoch = core_.epoch.load(std::memory_order_relaxed);
  if (cursor_ != kNoCursor) pulled.aside_from = &rows_.row(cursor_);
  return pulled;
}

template <typename Width>
[[gnu::always_inline]] inline void TableStripe::HitCreate(const Pulled& pulled, Width width,
                                                          uint32_t p, RowHeader* row) {
  if (pulled.aside_from != nullptr && row >= pulled.aside_from) [[unlikely]]
    BeforeChange(row);
  if (pulled.event_times != nullptr) {
    const int64_t time = pulled.event_times[p];
    if (Expired(row->event_time, time)) [[unlikely]]
      Renew(row);
    if (time > row->event_time) {
      row->event_time = static_cast<uint32_t>(std::min<int64_t>(time, 0xFFFFFFFF));
    }
  }
  if (pulled.places != nullptr) pulled.places[p] = rows_.PlaceOf(row);
  row->AddSights(pulled.counts != nullptr ? pulled.counts[p] : 1, kRowDirty | kRowReferenced);
  row->epoch = pulled.epoch;
  CopyWeights(core_.layout, width, *row, pulled.weights + size_t{p} * width);
}

void TableStripe::Renew(RowHeader* row) {
  ++stats_.expired;
  row->event_time = 0;
  row->set_frequency(0);
  InitRow(row);
}

TableStripe::Stepped TableStripe::SteppedOf(const TableCall& call) const {
  Stepped stepped;
  stepped.grads = call.grads.data();
  stepped.width = core_.layout.width();
  stepped.flags = kRowDirty | kRowReferenced;
  if (core_.dense) stepped.flags |= kRowStepped;
  stepped.epoch = core_.epoch.load(std::memory_order_relaxed);
  if (cursor_ != kNoCursor) stepped.aside_from = &rows_.row(cursor_);
  return stepped;
}

[[gnu::always_inline]] inline void TableStripe::HitStep(const Stepped& stepped, uint32_t p,
                                                        RowHeader* row, StepBlock* steps) {
  if (stepped.aside_from != nullptr && row >= stepped.aside_from) [[unlikely]]
    BeforeChange(row);
  row->flags_frequency = (row->flags_frequency & ~kRowAwaited) | stepped.flags;
  row->epoch = stepped.epoch;
  steps->Add(row, stepped.grads + size_t{p} * stepped.width);
}

void TableStripe::HitDelta(const TableCall& call, uint32_t p, RowHeader* row) {
  const size_t width = core_.layout.width();
  BeforeChange(row);
  core_.layout.AddDelta(core_.seed ^ row->id, row->body(), call.grads.subspan(p * width, width));
  row->Clear(kRowAwaited);
  Changed(row);
}

void TableStripe::FromCold(const TableCall& call, uint32_t p, const RowHeader& row) {
  hits_cold_.fetch_add(1, std::memory_order_relaxed);
  if (call.kind == TableCall::kLookup) {
    core_.layout.ReadWeights(row.body(), &call.weights[size_t{p} * core_.layout.width()]);
    return;
  }
  Hit(call, p, &rows_.row(Promote(row)));
}

void TableStripe::Absent(const TableCall& call, uint32_t p, bool admitted) {
  const size_t width = core_.layout.width();
  misses_.fetch_add(1, std::memory_order_relaxed);
  if (call.kind == TableCall::kPrefetch && !nowhere_.empty()) *NoteOf(call.ids[p]) = call.ids[p];
  if (admitted) {
    const uint32_t slot = NewSlot(call.ids[p]);
    admission_.HasRow(call.ids[p]);
    RowHeader* const row = &rows_.row(slot);
    InitRow(row);
    // Born in this epoch, before the change that HitCreate makes of it.
    row->epoch = core_.epoch.load(std::memory_order_relaxed);
    return Hit(call, p, row);
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
  StepBlock steps(core_, lr_scale);
  for (uint32_t slot = 0; slot < rows_.slots(); ++slot) {
    RowHeader& row = rows_.row(slot);
    if (row.has(kRowUsed) && !row.has(kRowStepped)) {
      BeforeChange(&row);
      steps.Add(&row, zeros.data());
      Changed(&row);
    }
    row.Clear(kRowStepped);
  }
  ++steps_;
}

bool TableStripe::Expired(uint32_t row_time, int64_t event_time) const {
  if (core_.ttl <= 0 || row_time == 0 || event_time == 0) return false;
  return static_cast<double>(event_time - row_time) > core_.ttl;
}

}  // namespace starling
