#include "sample_io/unique_ids.h"

#include <algorithm>
#include <bit>

#include "base/hash.h"

namespace starling {

void UniqueIds::Start(size_t occurrences) {
  size_t size = std::bit_ceil(std::max<size_t>(16, 2 * occurrences));
  entries_.assign(size, Entry{0, 0});
  mask_ = size - 1;
  ids_.clear();
}

void UniqueIds::Number(std::span<const uint64_t> ids, uint32_t* numbers) {
  constexpr size_t kAhead = 16;  // The table is larger than a core's own caches.
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i + kAhead < ids.size()) __builtin_prefetch(&entries_[ids[i + kAhead] & mask_], 1);
    numbers[i] = NumberOf(ids[i]);
  }
}

uint32_t UniqueIds::NumberOf(uint64_t id) {
  // An id is a hash already: its low bits choose the place.
  for (size_t i = id & mask_;; i = (i + 1) & mask_) {
    Entry& entry = entries_[i];
    if (entry.number == 0) {
      ids_.push_back(id);
      entry = {id, static_cast<uint32_t>(ids_.size())};
      return entry.number - 1;
    }
    if (entry.id == id) return entry.number - 1;
  }
}

// One counting pass by bucket, then each bucket, of a few ids, by id.
void UniqueIds::Sort(TableIds* table) {
  const size_t n = ids_.size();
  starts_.assign(kBuckets + 1, 0);
  for (uint64_t id : ids_) ++starts_[BucketOf(id) + 1];
  for (uint32_t b = 0; b < kBuckets; ++b) starts_[b + 1] += starts_[b];
  order_.resize(n);
  for (size_t i = 0; i < n; ++i) order_[starts_[BucketOf(ids_[i])]++] = static_cast<uint32_t>(i);
  uint32_t begin = 0;  // starts_[b] is now where bucket b ends.
  for (uint32_t b = 0; b < kBuckets; ++b) {
    if (starts_[b] - begin > 1) {
      std::sort(order_.begin() + begin, order_.begin() + starts_[b],
                [this](uint32_t x, uint32_t y) { return ids_[x] < ids_[y]; });
    }
    begin = starts_[b];
  }
  table->ids.resize(n);
  rank_.resize(n);
  for (size_t i = 0; i < n; ++i) {
    table->ids[i] = ids_[order_[i]];
    rank_[order_[i]] = static_cast<uint32_t>(i);
  }
}

// A counting sort by id that keeps the order (slot, entry) inside an id.
// REQUIRES: occurrence_offsets[u + 1] is the number of u's occurrences.
void UniqueIds::TurnAround(const EntryFacts& rows, const EntryFacts& requests, TableIds* table) {
  const size_t n = table->ids.size();
  auto& offsets = table->occurrence_offsets;
  for (size_t u = 0; u < n; ++u) offsets[u + 1] += offsets[u];
  table->occurrences.resize(offsets[n]);
  table->event_times.assign(n, 0);
  table->counts.assign(n, 0);
  for (uint32_t s = 0; s < table->slots.size(); ++s) {
    const Slot& slot = table->slots[s];
    const EntryFacts& facts = slot.axis == Axis::kRequest ? requests : rows;
    for (uint32_t entry = 0; entry + 1 < slot.offsets.size(); ++entry) {
      const int64_t time = facts.event_times.empty() ? 0 : facts.event_times[entry];
      const uint32_t count = facts.rows.empty() ? 1 : facts.rows[entry];
      for (uint32_t i = slot.offsets[entry]; i < slot.offsets[entry + 1]; ++i) {
        uint32_t u = slot.index[i];
        table->occurrences[offsets[u]++] = {s, entry, slot.weights.empty() ? 1 : slot.weights[i]};
        table->event_times[u] = std::max(table->event_times[u], time);
        table->counts[u] += count;
      }
    }
  }
  // offsets[u] has moved on to where u ends, which is where u + 1 starts.
  for (size_t u = n; u > 0; --u) offsets[u] = offsets[u - 1];
  offsets[0] = 0;
}

void UniqueIds::Finish(const EntryFacts& rows, const EntryFacts& requests, TableIds* table) {
  Sort(table);
  table->occurrence_offsets.assign(table->ids.size() + 1, 0);
  for (Slot& slot : table->slots) {
    for (uint32_t& index : slot.index) {
      index = rank_[index];
      ++table->occurrence_offsets[index + 1];
    }
  }
  TurnAround(rows, requests, table);
}

}  // namespace starling
