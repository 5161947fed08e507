// Turns the occurrences of ids in a table's slots into unique ids in their
// order, and the occurrences around: the hot half of the FeatureCompiler.
//
// Slots are numbered one by one, since one slot's ids fit a core's own caches
// where a table's do not; an id that stands in several slots gets a number in
// each, and these meet again when all numbers are sorted by id.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sample_io/batch.h"

namespace starling {

// What ids take over from the entries of an axis.
struct EntryFacts {
  std::span<const int64_t> event_times;  // Empty: unknown.
  std::span<const uint32_t> rows;        // That the entry stands for; empty: 1 each.
};

// Reused between batches. Not thread-safe: one a thread.
class UniqueIds {
 public:
  // Starts a table, whose slots are then added in their order.
  void Start();
  // Keys stand for ids, one to one within a slot, so that a key is hashed once
  // in a batch. They are those of the slot's entries, in order; slot->offsets
  // must be there. REQUIRES: all slots of a table hold less than 2^31 ids.
  struct Keys {
    std::span<const uint64_t> values;
    bool are_ids = true;  // Else the id is HashInt64(key, seed).
    uint64_t seed = 0;
  };
  // Returns how many different keys there are.
  int64_t Add(const Keys& keys, const EntryFacts& facts, Slot* slot);
  // Orders the ids by (bucket, id) and fills all of `table` but its slots'
  // offsets and weights, which must be there. An id of a request counts for all
  // of the request's rows.
  void Finish(TableIds* table);

 private:
  struct Entry {
    uint64_t key;
    uint32_t stamp;  // epoch_ + the key's number; less than that of the slot's first: empty.
  };
  // Of the two halves of a slot's occurrences, which are walked side by side: a
  // processor waits for a counter that it has only just written.
  struct Halves {
    uint32_t of[2];
  };
  // An id of one slot.
  struct Number {
    uint64_t id;
    uint32_t number;
  };
  // Where a number's occurrences go.
  struct Place {
    uint32_t rank;  // In table->ids.
    Halves cursor;  // In table->occurrences: the next of each half.
  };

  static uint32_t Sum(const Halves& halves) { return halves.of[0] + halves.of[1]; }

  void MakeRoom(size_t ids);
  void NumberKeys(std::span<const uint64_t> keys, uint32_t* numbers);
  void Count(const Slot& slot, uint32_t first);
  void TakeFacts(const EntryFacts& facts, const Slot& slot, uint32_t first);
  void Sort();
  void SortBuckets();
  void Rank(TableIds* table);
  void TurnAround(uint32_t number, Slot* slot, TableIds* table);
  template <bool plain>
  void TurnAs(uint32_t number, Slot* slot, TableIds* table);
  // The entry of every occurrence of a slot; good until the next call.
  const uint32_t* EntriesOf(const Slot& slot);

  std::vector<Entry> entries_;  // Open addressing; a power of two, at most half full.
  uint32_t epoch_ = 1;          // Grows by the numbers of a table, so that no entry is cleared.
  uint32_t count_ = 0;          // Numbers so far. These have room for as many and more:
  std::vector<uint64_t> ids_;
  std::vector<Halves> occurrences_;
  std::vector<uint32_t> rows_;
  std::vector<int64_t> times_;
  std::vector<Number> sorted_, bucketed_;
  std::vector<Place> places_;
  std::vector<uint32_t> starts_;    // By bucket, while sorting.
  std::vector<uint32_t> entry_of_;  // By occurrence of a slot, and one more.
};

}  // namespace starling
