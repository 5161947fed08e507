// TableStripe: memory and what does not fit into it.
#include <algorithm>
#include <cstring>

#include "base/hash.h"
#include "base/status.h"
#include "base/sync_point.h"
#include "embedding_store/table_stripe.h"

namespace starling {
namespace {

constexpr int64_t kDemoteMax = 512;      // Rows of one write-back.
constexpr int64_t kFreePart = 50;        // One in so many rows is kept free for newcomers.
constexpr int64_t kRoomPart = 16;        // And up to one in so many for rows to be read.
constexpr size_t kSample = 8;            // The least frequent one of so many rows leaves memory.
constexpr int64_t kAgeTurns = 4;         // Rows age each time so many times the rows have left.
constexpr uint32_t kClean = kRowInCold;  // Of kRowInCold and kRowDirty: nothing to write.

}  // namespace

bool TableStripe::Pay(int64_t bytes) {
  // Never above the budget, not even for a moment: another stripe would find it full.
  int64_t before = core_.bytes.load();
  do {
    if (before + bytes > core_.budget) return false;
  } while (!core_.bytes.compare_exchange_weak(before, before + bytes));
  return true;
}

bool TableStripe::GrowRows() {
  const int64_t need = rows_.growth_bytes();
  if (!Pay(need)) return false;
  if (rows_.Grow()) return true;
  core_.bytes -= need;
  return false;
}

bool TableStripe::GrowIndex() {
  const int64_t need = index_.growth_bytes();
  if (!Pay(need)) return false;
  if (!index_.Grow()) {
    core_.bytes -= need;
    return false;
  }
  // The processor would not guess rows of several lines, nor where their entries go.
  constexpr uint32_t kLineAhead = 16, kRowAhead = 2 * kLineAhead;
  const BucketIndex::View index = index_.view();
  for (uint32_t slot = 0; slot < rows_.slots(); ++slot) {
    PrefetchLine(&rows_.row(slot + kRowAhead));
    const RowHeader& soon = rows_.row(std::min(slot + kLineAhead, rows_.slots() - 1));
    PrefetchLine(index.HomeLine(BucketIndex::HashOf(soon.id)));
    const RowHeader& row = rows_.row(slot);
    if (row.has(kRowUsed)) index_.Insert(BucketIndex::HashOf(row.id), slot);
  }
  return true;
}

int64_t TableStripe::Room() const { return std::min(rows_.free_slots(), index_.room()); }

absl::Status TableStripe::Reserve() {
  while (!GrowToRoom()) {
    if (core_.cold == nullptr) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "table ", core_.spec.options().name(), ": its ", core_.spec.options().memory(),
          " bytes of memory are full; raise the table's memory",
          core_.dense ? " (update: dense keeps every row there)" : ", or set tier: rocksdb"));
    }
    core_.demote_due.store(true, std::memory_order_relaxed);
    RETURN_IF_ERROR(DemoteSlice());
  }
  return absl::OkStatus();
}

uint32_t TableStripe::NewSlot(uint64_t id) {
  const uint32_t slot = rows_.Allocate(id);
  index_.Insert(BucketIndex::HashOf(id), slot);
  return slot;
}

uint32_t TableStripe::Promote(const RowHeader& cold) {
  STARLING_SYNC_POINT("store.promote");
  const uint32_t slot = NewSlot(cold.id);
  RowHeader& row = rows_.row(slot);
  std::memcpy(static_cast<void*>(&row), &cold, rows_.stride());
  row.Clear(kRowDirty | kRowStepped | kRowIdle | kRowAwaited);
  row.Set(kRowUsed | kRowReferenced | kRowInCold);
  --rows_cold_;
  ++stats_.promoted;
  return slot;
}

void TableStripe::AwaitWritten() {
  mu_.Await(absl::Condition(
      +[](bool* writing) { return !*writing; }, &writing_));
}

absl::StatusOr<bool> TableStripe::Demote(int64_t room) {
  absl::MutexLock lock(&mu_);
  // Not all of the ids may turn out to have rows: what they do not need stays free.
  const int64_t wanted = std::max<int64_t>(std::min<int64_t>(room, rows_.slots() / kRoomPart),
                                           rows_.slots() / kFreePart);
  auto short_of_room = [this, wanted]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return Room() < wanted &&
           core_.bytes + std::max(rows_.growth_bytes(), index_.growth_bytes()) > core_.budget;
  };
  if (!short_of_room()) return false;
  if (room > 0) core_.demote_due.store(true, std::memory_order_relaxed);
  RETURN_IF_ERROR(DemoteSlice());
  return short_of_room();
}

absl::Status TableStripe::DemoteSlice() {
  AwaitWritten();
  std::vector<uint32_t> slots;
  std::vector<char> bytes;
  PickVictims(&slots, &bytes);
  if (slots.empty()) return absl::OkStatus();
  writing_ = true;
  mu_.Unlock();
  const absl::Status status = core_.cold->Write(bytes);
  mu_.Lock();
  writing_ = false;
  FinishVictims(slots, status.ok());
  return status;
}

uint32_t TableStripe::NextOfClock() {
  const uint32_t slot = hand_;
  if (++hand_ >= rows_.slots()) {
    hand_ = 0;
    ageing_ = left_ >= kAgeTurns * rows_.rows();
    if (ageing_) left_ = 0;
  }
  return slot;
}

// Of some rows that nobody touched since the hand last passed, the least
// frequent ones. How often a row was seen counts for less the longer it has
// been idle, so that what was popular once leaves too.
std::vector<uint32_t> TableStripe::LeastWanted(size_t wanted) {
  std::vector<uint32_t> slots;
  std::vector<uint64_t> order;  // Frequency, then the hand's order.
  // The first round takes marks from rows, so that a second one finds more; the
  // third takes even rows that a batch is going to need.
  for (int round = 0; round < 3 && slots.size() < wanted; ++round) {
    slots.clear();
    order.clear();
    for (uint32_t looked = 0; looked < rows_.slots() && slots.size() < kSample * wanted; ++looked) {
      const uint32_t slot = NextOfClock();
      RowHeader& row = rows_.row(slot);
      if (!row.has(kRowUsed)) continue;
      if (row.has(kRowReferenced)) {
        row.Clear(kRowReferenced | kRowIdle);
        continue;
      }
      if (ageing_) row.RaiseIdle();
      if (round < 2 && row.has(kRowAwaited) && row.idle() < RowHeader::kIdleMax) continue;
      order.push_back(uint64_t{row.frequency() >> 2 * row.idle()} << 32 | slots.size());
      slots.push_back(slot);
    }
  }
  if (slots.size() > wanted) {
    std::nth_element(order.begin(), order.begin() + static_cast<int64_t>(wanted), order.end());
    order.resize(wanted);
    for (uint64_t& key : order) key = slots[static_cast<uint32_t>(key)];
    slots.assign(order.begin(), order.end());
  }
  std::sort(slots.begin(), slots.end(),
            [this](uint32_t a, uint32_t b) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
              return IdBefore(rows_.row(a).id, rows_.row(b).id);
            });
  return slots;
}

// Frees rows that need no write at once, and chooses others that do: their
// bytes are copied, by (bucket, id), and count as clean from here on.
void TableStripe::PickVictims(std::vector<uint32_t>* slots, std::vector<char>* bytes) {
  const auto wanted = static_cast<size_t>(std::clamp<int64_t>(rows_.rows() / 8, 1, kDemoteMax));
  for (uint32_t slot : LeastWanted(wanted)) {
    RowHeader& row = rows_.row(slot);
    if ((row.flags() & (kRowInCold | kRowDirty)) == kClean) {
      FreeSlot(slot);
      ++rows_cold_;
      ++left_;
      ++stats_.demoted;
      continue;
    }
    BeforeChange(&row);
    row.Clear(kRowDirty);
    row.Set(kRowInCold);
    slots->push_back(slot);
  }
  bytes->reserve(slots->size() * rows_.stride());
  for (uint32_t slot : *slots) {
    const char* begin = reinterpret_cast<const char*>(&rows_.row(slot));
    bytes->insert(bytes->end(), begin, begin + rows_.stride());
  }
}

void TableStripe::FinishVictims(std::span<const uint32_t> slots, bool written) {
  for (uint32_t slot : slots) {
    RowHeader& row = rows_.row(slot);
    if (!written) {
      row.Set(kRowDirty);
      continue;
    }
    if (row.has(kRowDirty) || row.has(kRowReferenced)) continue;  // Somebody wants it.
    FreeSlot(slot);
    ++rows_cold_;
    ++left_;
    ++stats_.demoted;
  }
}

void TableStripe::FreeSlot(uint32_t slot) {
  const uint64_t id = rows_.row(slot).id;
  ++Version(id);
  if (KnownNowhere(id)) *NoteOf(id) = 0;
  index_.Erase(BucketIndex::HashOf(id), slot);
  rows_.Free(slot);
}

}  // namespace starling
