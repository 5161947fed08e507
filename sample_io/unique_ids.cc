#include "sample_io/unique_ids.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/hash.h"

namespace starling {
namespace {

// Below this many, counting by bucket would cost more than it saves.
constexpr size_t kFewIds = 1024;
// A bucket of at most so many is ordered by comparing all with all, without a
// branch that a processor could guess wrong.
constexpr size_t kSmallBucket = 24;

template <typename T>
void GrowTo(size_t size, std::vector<T>* values) {
  if (values->size() < size) values->resize(std::max(size, 2 * values->size()));
}

// Orders [begin, begin + n) by id into `out`. Equal ids keep their order.
template <typename Number>
void SortSmall(const Number* begin, size_t n, Number* out) {
  uint32_t rank[kSmallBucket] = {};
  for (size_t i = 1; i < n; ++i) {
    const uint64_t id = begin[i].id;
    uint32_t before = 0;
    for (size_t j = 0; j < i; ++j) {
      const bool less = begin[j].id <= id;
      before += less;
      rank[j] += !less;
    }
    rank[i] += before;
  }
  for (size_t i = 0; i < n; ++i) out[rank[i]] = begin[i];
}

}  // namespace

void UniqueIds::Start() {
  epoch_ += count_;
  count_ = 0;
  if (epoch_ < std::numeric_limits<uint32_t>::max() / 2) return;
  std::fill(entries_.begin(), entries_.end(), Entry{0, 0});
  epoch_ = 1;
}

void UniqueIds::MakeRoom(size_t ids) {
  const size_t size = std::bit_ceil(std::max<size_t>(16, 2 * ids));
  if (entries_.size() < size) entries_.assign(size, Entry{0, 0});
  GrowTo(count_ + ids + 1, &ids_);
  GrowTo(count_ + ids + 1, &occurrences_);
  GrowTo(count_ + ids + 1, &rows_);
  GrowTo(count_ + ids + 1, &times_);
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
  Count(*slot, first);
  TakeFacts(facts, *slot, first);
  return count_ - first;
}

// Sets numbers[i] to the number of keys[i]; new numbers' keys stand in ids_.
void UniqueIds::NumberKeys(std::span<const uint64_t> keys, uint32_t* numbers) {
  // A slot uses as much of the table as it needs: the rest stays out of the cache.
  const int bits = std::bit_width(std::max<size_t>(16, 2 * keys.size()) - 1);
  const size_t mask = (size_t{1} << bits) - 1;
  auto home = [bits](uint64_t key) { return (key * 0x9E3779B97F4A7C15ull) >> (64 - bits); };
  constexpr size_t kAhead = 8;
  const uint32_t first = epoch_ + count_;
  Entry* entries = entries_.data();
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i + kAhead < keys.size()) __builtin_prefetch(&entries[home(keys[i + kAhead])], 1);
    const uint64_t key = keys[i];
    size_t at = home(key);
    while (entries[at].key != key || entries[at].stamp < first) {
      if (entries[at].stamp < first) {
        entries[at] = {key, epoch_ + count_};
        ids_[count_++] = key;
        break;
      }
      at = (at + 1) & mask;
    }
    numbers[i] = entries[at].stamp - epoch_;
  }
}

void UniqueIds::Count(const Slot& slot, uint32_t first) {
  std::fill(occurrences_.begin() + first, occurrences_.begin() + count_, Halves{});
  const uint32_t* numbers = slot.index.data();
  const size_t n = slot.index.size(), half = n / 2;
  for (size_t i = 0; i < half; ++i) {
    ++occurrences_[numbers[i]].of[0];
    ++occurrences_[numbers[half + i]].of[1];
  }
  if (n > 2 * half) ++occurrences_[numbers[n - 1]].of[1];
}

const uint32_t* UniqueIds::EntriesOf(const Slot& slot) {
  GrowTo(slot.index.size() + 1, &entry_of_);
  const uint32_t* offsets = slot.offsets.data();
  const uint32_t entries = static_cast<uint32_t>(slot.offsets.size() - 1);
  uint32_t uneven = 0;
  for (uint32_t e = 0; e <= entries; ++e) uneven |= offsets[e] ^ e;
  if (uneven == 0) {  // One value each.
    std::iota(entry_of_.begin(), entry_of_.begin() + entries, 0);
    return entry_of_.data();
  }
  for (uint32_t e = 0; e < entries; ++e) {
    // What an empty entry writes, the next one overwrites.
    entry_of_[offsets[e]] = e;
    for (uint32_t i = offsets[e] + 1; i < offsets[e + 1]; ++i) entry_of_[i] = e;
  }
  return entry_of_.data();
}

// For the numbers from `first` on: the rows they stand for and their latest time.
void UniqueIds::TakeFacts(const EntryFacts& facts, const Slot& slot, uint32_t first) {
  std::fill(times_.begin() + first, times_.begin() + count_, 0);
  for (uint32_t i = first; i < count_; ++i) rows_[i] = Sum(occurrences_[i]);
  if (facts.event_times.empty() && facts.rows.empty()) return;
  const uint32_t* entry_of = EntriesOf(slot);
  const uint32_t* numbers = slot.index.data();
  const size_t n = slot.index.size();
  if (!facts.event_times.empty()) {
    for (size_t i = 0; i < n; ++i) {
      int64_t& time = times_[numbers[i]];
      time = std::max(time, facts.event_times[entry_of[i]]);
    }
  }
  if (facts.rows.empty()) return;
  std::fill(rows_.begin() + first, rows_.begin() + count_, 0);
  for (size_t i = 0; i < n; ++i) rows_[numbers[i]] += facts.rows[entry_of[i]];
}

// Numbers by (bucket, id); equal ids, of several slots, in the order of these.
void UniqueIds::Sort() {
  GrowTo(count_, &sorted_);
  if (count_ >= kFewIds) return SortBuckets();
  for (uint32_t i = 0; i < count_; ++i) sorted_[i] = {ids_[i], i};
  std::sort(sorted_.begin(), sorted_.begin() + count_, [](const Number& a, const Number& b) {
    return a.id != b.id ? IdBefore(a.id, b.id) : a.number < b.number;
  });
}

// One counting pass by bucket, then each bucket, of a few ids, by id.
void UniqueIds::SortBuckets() {
  GrowTo(count_, &bucketed_);
  starts_.assign(kBuckets + 1, 0);
  for (uint32_t i = 0; i < count_; ++i) ++starts_[BucketOf(ids_[i]) + 1];
  for (uint32_t b = 0; b < kBuckets; ++b) starts_[b + 1] += starts_[b];
  for (uint32_t i = 0; i < count_; ++i) {
    bucketed_[starts_[BucketOf(ids_[i])]++] = {ids_[i], i};
  }
  uint32_t begin = 0;  // starts_[b] is now where bucket b ends.
  for (uint32_t b = 0; b < kBuckets; begin = starts_[b++]) {
    const size_t n = starts_[b] - begin;
    if (n <= kSmallBucket) {
      SortSmall(&bucketed_[begin], n, &sorted_[begin]);
      continue;
    }
    std::copy_n(&bucketed_[begin], n, &sorted_[begin]);
    std::sort(&sorted_[begin], &sorted_[begin] + n, [](const Number& x, const Number& y) {
      return x.id != y.id ? x.id < y.id : x.number < y.number;
    });
  }
}

// Fills what `table` has by id. An id's occurrences are those of its numbers,
// one after the other, which is the order (slot, entry).
void UniqueIds::Rank(TableIds* table) {
  GrowTo(count_, &places_);
  table->ids.resize(count_);
  table->counts.resize(count_);
  table->event_times.resize(count_);
  table->occurrence_offsets.resize(count_ + 1);
  uint32_t ranks = 0, total = 0;
  for (uint32_t i = 0; i < count_; ++i) {
    const Number& of = sorted_[i];
    const bool fresh = ranks == 0 || table->ids[ranks - 1] != of.id;
    ranks += fresh;
    const uint32_t u = ranks - 1;
    table->ids[u] = of.id;
    table->counts[u] = (fresh ? 0 : table->counts[u]) + rows_[of.number];
    table->event_times[u] = std::max(fresh ? 0 : table->event_times[u], times_[of.number]);
    if (fresh) table->occurrence_offsets[u] = total;
    const Halves& occurrences = occurrences_[of.number];
    places_[of.number] = {u, {{total, total + occurrences.of[0]}}};
    total += Sum(occurrences);
  }
  table->ids.resize(ranks);
  table->counts.resize(ranks);
  table->event_times.resize(ranks);
  table->occurrence_offsets.resize(ranks + 1);
  table->occurrence_offsets[ranks] = total;
  table->occurrences.resize(total);
}

// Gives the occurrences of slot `number` their ids' ranks, and these their occurrences.
void UniqueIds::TurnAround(uint32_t number, Slot* slot, TableIds* table) {
  const bool plain = slot->weights.empty() && slot->axis != Axis::kPosition;
  plain ? TurnAs<true>(number, slot, table) : TurnAs<false>(number, slot, table);
}

// `plain`: of a row or request, with the weight 1.
template <bool plain>
void UniqueIds::TurnAs(uint32_t number, Slot* slot, TableIds* table) {
  const uint32_t* entry_of = EntriesOf(*slot);
  const float* weights = slot->weights.empty() ? nullptr : slot->weights.data();
  Occurrence* occurrences = table->occurrences.data();
  uint32_t* index = slot->index.data();
  Place* places = places_.data();
  const bool positions = slot->axis == Axis::kPosition;
  auto turn = [&](size_t i, int half) {
    Place& place = places[index[i]];
    index[i] = place.rank;
    Occurrence& to = occurrences[place.cursor.of[half]++];
    if constexpr (plain) {
      static_assert(std::endian::native == std::endian::little);
      const uint64_t slot_and_entry = number | uint64_t{entry_of[i]} << 32;  // In one store.
      std::memcpy(&to, &slot_and_entry, sizeof(slot_and_entry));
      to.weight = 1;
    } else {
      to = {number, positions ? static_cast<uint32_t>(i) : entry_of[i],
            weights == nullptr ? 1 : weights[i]};
    }
  };
  constexpr size_t kAhead = 8;
  auto fetch = [&](size_t i, int half) {
    __builtin_prefetch(&occurrences[places[index[i]].cursor.of[half]], 1);
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
  Sort();
  Rank(table);
  for (uint32_t s = 0; s < table->slots.size(); ++s) TurnAround(s, &table->slots[s], table);
}

}  // namespace starling
