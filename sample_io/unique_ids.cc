#include "sample_io/unique_ids.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "base/hash.h"
#include "sample_io/grow.h"

namespace starling {
namespace {

constexpr size_t kEntriesMin = 64;
constexpr size_t kFewKeys = 16;  // With room for fewer, more entries are used.
constexpr int kCachedBits = 12;  // So many entries are in a core's own cache in any case.

// Where a search for the key begins, in 2^bits entries.
size_t Home(uint64_t key, int bits) { return (key * 0x9E3779B97F4A7C15ull) >> (64 - bits); }

}  // namespace

void UniqueIds::Start(size_t first_slot) {
  epoch_ += count_;
  count_ = 0;
  slot_ = first_slot;
  with_times_ = false;
  entries_begin_.clear();
  entries_end_ = 0;
  if (epoch_ < std::numeric_limits<uint32_t>::max() / 4) return;
  std::fill(entries_.begin(), entries_.end(), Entry{0, 0});
  epoch_ = 1;
}

void UniqueIds::MakeRoom(size_t ids) {
  GrowTo(count_ + ids + 1, &ids_);
  GrowTo(count_ + ids + 1, &numbers_);
  GrowTo(count_ + ids + 1, &times_);
}

uint32_t* UniqueIds::EntryRoom(size_t values) {
  GrowTo(entries_end_ + values + 1, &entry_of_);
  return &entry_of_[entries_end_];
}

int64_t UniqueIds::Add(const Keys& keys, const EntryFacts& facts, Slot* slot) {
  const uint32_t first = count_;
  MakeRoom(keys.values.size());
  slot->index.resize(keys.values.size());
  NumberKeys(keys.values, slot->index.data());
  if (!keys.are_ids) {
    for (uint32_t i = first; i < count_; ++i) {
      ids_[i] = HashInt64(static_cast<int64_t>(ids_[i]), keys.seed);
    }
  }
  entries_begin_.push_back(entries_end_);
  entries_end_ += keys.values.size();
  facts.rows.empty() ? Count<false>(*slot, first, {}) : Count<true>(*slot, first, facts.rows);
  TakeTimes(facts.event_times, *slot, first);
  return count_ - first;
}

// Sets numbers[i] to the number of keys[i]; new numbers' keys stand in ids_.
void UniqueIds::NumberKeys(std::span<const uint64_t> keys, uint32_t* numbers) {
  GrowTo(slot_ + 1, &last_keys_);
  uint32_t& last = last_keys_[slot_++];
  const size_t enough = std::max(kEntriesMin, 2 * keys.size());
  int bits = std::bit_width(std::clamp(3 * size_t{last}, kEntriesMin, enough) - 1);
  const uint32_t first = count_;
  for (size_t done = 0;; ++bits) {
    if (entries_.size() < size_t{1} << bits) entries_.assign(size_t{1} << bits, Entry{0, 0});
    Insert(first, bits);
    done += NumberSome(keys.subspan(done), first, bits, numbers + done);
    if (done == keys.size()) break;
    epoch_ += count_ - first;  // What stands in the smaller part is old from here on.
  }
  last = count_ - first;
}

// Enters the numbers from `first` on into the first 2^bits entries, which hold none of them.
void UniqueIds::Insert(uint32_t first, int bits) {
  const size_t mask = (size_t{1} << bits) - 1;
  for (uint32_t i = first; i < count_; ++i) {
    size_t at = Home(ids_[i], bits);
    while (entries_[at].stamp >= epoch_ + first) at = (at + 1) & mask;
    entries_[at] = {ids_[i], epoch_ + i};
  }
}

// Numbers keys until the first 2^bits entries are half full; returns how many.
size_t UniqueIds::NumberSome(std::span<const uint64_t> keys, uint32_t first, int bits,
                             uint32_t* numbers) {
  const size_t room = size_t{1} << (bits - 1);
  size_t done = 0;
  while (done < keys.size()) {
    const size_t left = keys.size() - done, free = room - (count_ - first);
    if (free < std::min(kFewKeys, left)) break;
    const std::span<const uint64_t> some = keys.subspan(done, std::min(left, free));
    bits > kCachedBits ? NumberAll<true>(some, first, bits, numbers + done)
                       : NumberAll<false>(some, first, bits, numbers + done);
    done += some.size();
  }
  return done;
}

// As NumberSome, where there is room for all. Whether a key is new cannot be
// guessed, so there is no branch on it: keys that stand where their search begins,
// as most do, are numbered some at a time, and the others listed for a second turn.
template <bool fetch>
void UniqueIds::NumberAll(std::span<const uint64_t> keys, uint32_t first, int bits,
                          uint32_t* numbers) {
  constexpr size_t kSome = 64;
  const uint32_t epoch = epoch_, oldest = epoch + first;
  const Entry* const entries = entries_.data();
  for (size_t begin = 0; begin < keys.size(); begin += kSome) {
    const size_t end = std::min(keys.size(), begin + kSome);
    if (fetch) {
      for (size_t i = begin + kSome; i < std::min(keys.size(), end + kSome); ++i) {
        __builtin_prefetch(&entries[Home(keys[i], bits)], 1);
      }
    }
    uint32_t others[kSome];
    size_t count = 0;
    for (size_t i = begin; i < end; ++i) {
      const Entry& at = entries[Home(keys[i], bits)];
      numbers[i] = at.stamp - epoch;
      others[count] = static_cast<uint32_t>(i);
      count += (at.key != keys[i]) | (at.stamp < oldest);
    }
    for (size_t o = 0; o < count; ++o) numbers[others[o]] = FindOrAdd(keys[others[o]], first, bits);
  }
}

uint32_t UniqueIds::FindOrAdd(uint64_t key, uint32_t first, int bits) {
  const size_t mask = (size_t{1} << bits) - 1;
  const uint32_t oldest = epoch_ + first;
  size_t at = Home(key, bits);
  for (; entries_[at].stamp >= oldest; at = (at + 1) & mask) {
    if (entries_[at].key == key) return entries_[at].stamp - epoch_;
  }
  entries_[at] = {key, epoch_ + count_};
  ids_[count_] = key;
  return count_++;
}

// Sets the occurrences of the numbers from `first` on, and the rows they stand for: those
// of each occurrence's entry with `by_entry`, else one.
template <bool by_entry>
void UniqueIds::Count(const Slot& slot, uint32_t first, std::span<const uint32_t> rows) {
  for (uint32_t i = first; i < count_; ++i) numbers_[i] = {};
  const uint32_t* numbers = slot.index.data();
  const uint32_t* entry_of = entry_of_.data() + entries_begin_.back();
  auto count = [&](size_t i, int half) {
    Number& of = numbers_[numbers[i]];
    ++of.occurrences.of[half];
    if (by_entry) of.rows += rows[entry_of[i]];
  };
  const size_t n = slot.index.size(), half = n / 2;
  for (size_t i = 0; i < half; ++i) {
    count(i, 0);
    count(half + i, 1);
  }
  if (n > 2 * half) count(n - 1, 1);
  for (uint32_t i = first; !by_entry && i < count_; ++i) {
    numbers_[i].rows = Sum(numbers_[i].occurrences);
  }
}

// The latest time of each number from `first` on.
void UniqueIds::TakeTimes(std::span<const int64_t> event_times, const Slot& slot, uint32_t first) {
  const bool first_times = !with_times_ && !event_times.empty();
  with_times_ = with_times_ || first_times;
  if (!with_times_) return;
  std::fill(times_.begin() + (first_times ? 0 : first), times_.begin() + count_, 0);
  if (event_times.empty()) return;
  const uint32_t* entry_of = entry_of_.data() + entries_begin_.back();
  for (size_t i = 0; i < slot.index.size(); ++i) {
    int64_t& time = times_[slot.index[i]];
    time = std::max(time, event_times[entry_of[i]]);
  }
}

// Fills what `table` has by id. An id's occurrences are those of its numbers,
// one after the other, which is the order (slot, entry).
void UniqueIds::Rank(TableIds* table) {
  const std::span<const NumberedId> sorted = order_.Sort(std::span(ids_).first(count_));
  table->ids.resize(count_);
  table->counts.resize(count_);
  table->event_times.resize(count_);
  table->occurrence_offsets.resize(count_ + 1);
  constexpr size_t kAhead = 32;
  uint32_t next = 0, total = 0;
  uint64_t last = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (i + kAhead < sorted.size()) {
      const uint32_t soon = sorted[i + kAhead].number;
      __builtin_prefetch(&numbers_[soon], 1);
      if (with_times_) __builtin_prefetch(&times_[soon]);
    }
    Number& of = numbers_[sorted[i].number];
    const bool fresh = i == 0 || last != sorted[i].id;
    last = sorted[i].id;
    next += fresh;
    const uint32_t u = next - 1;
    table->ids[u] = last;
    table->counts[u] = (fresh ? 0 : table->counts[u]) + of.rows;
    const int64_t time = with_times_ ? times_[sorted[i].number] : 0;
    table->event_times[u] = std::max(fresh ? 0 : table->event_times[u], time);
    if (fresh) table->occurrence_offsets[u] = total;
    const Halves occurrences = of.occurrences;
    of.rank = u;
    of.occurrences = {{total, total + occurrences.of[0]}};
    total += Sum(occurrences);
  }
  table->ids.resize(next);
  table->counts.resize(next);
  table->event_times.resize(next);
  table->occurrence_offsets.resize(next + 1);
  table->occurrence_offsets[next] = total;
  const bool weighted = std::any_of(table->slots.begin(), table->slots.end(),
                                    [](const Slot& slot) { return !slot.weights.empty(); });
  table->occurrences.entry_bits = Occurrences::EntryBits(table->slots.size());
  table->occurrences.codes.resize(total);
  table->occurrences.weights.resize(weighted ? total : 0);
}

// Gives the occurrences of slot `number` their ids' ranks, and these their occurrences.
// `plain`: all are of rows or requests, and weigh 1.
template <bool plain>
void UniqueIds::TurnAs(uint32_t number, Slot* slot, TableIds* table) {
  const uint32_t* entry_of = &entry_of_[entries_begin_[number]];
  const float* weights = slot->weights.empty() ? nullptr : slot->weights.data();
  uint32_t* codes = table->occurrences.codes.data();
  float* shares = table->occurrences.weights.empty() ? nullptr : table->occurrences.weights.data();
  const uint32_t first = number << table->occurrences.entry_bits;
  uint32_t* index = slot->index.data();
  Number* numbers = numbers_.data();
  const bool positions = slot->axis == Axis::kPosition;
  auto turn = [&](size_t i, int half) {
    Number& of = numbers[index[i]];
    index[i] = of.rank;
    const uint32_t to = of.occurrences.of[half]++;
    codes[to] = first | (!plain && positions ? static_cast<uint32_t>(i) : entry_of[i]);
    if (!plain && shares != nullptr) shares[to] = weights == nullptr ? 1 : weights[i];
  };
  constexpr size_t kAhead = 8;
  auto fetch = [&](size_t i, int half) {
    __builtin_prefetch(&codes[numbers[index[i]].occurrences.of[half]], 1);
  };
  const size_t n = slot->index.size(), half = n / 2;
  for (size_t i = 0; i < half; ++i) {
    if (i + kAhead < half) {
      fetch(i + kAhead, 0);
      fetch(half + i + kAhead, 1);
    }
    turn(i, 0);
    turn(half + i, 1);
  }
  if (n > 2 * half) turn(n - 1, 1);
}

void UniqueIds::Finish(TableIds* table) {
  Rank(table);
  for (uint32_t s = 0; s < table->slots.size(); ++s) {
    Slot* slot = &table->slots[s];
    const bool plain = table->occurrences.weights.empty() && slot->axis != Axis::kPosition;
    plain ? TurnAs<true>(s, slot, table) : TurnAs<false>(s, slot, table);
  }
}

}  // namespace starling
