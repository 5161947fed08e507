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
#include "sample_io/id_order.h"

namespace starling {

// What ids take over from the entries of an axis.
struct EntryFacts {
  std::span<const int64_t> event_times;  // Empty: unknown.
  std::span<const uint32_t> rows;        // That the entry stands for; empty: 1 each.
};

// Reused between batches. Not thread-safe: one a thread.
class UniqueIds {
 public:
  // Starts a table, whose slots are then added in their order. `first_slot` is the
  // number of the first among those of all tables, by which a slot's size is remembered.
  void Start(size_t first_slot);
  // Room for the entry of each value of the slot that is added next, and for one
  // more; what is written there must be so before Add.
  uint32_t* EntryRoom(size_t values);
  // Keys stand for ids, one to one within a slot, so that a key is hashed once
  // in a batch. They are those of the slot's entries, in order. REQUIRES: all slots of a table hold
  // less than 2^30 ids.
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
  // What is known of a number, in one place: numbers are met in no order of their own.
  struct Number {
    Halves occurrences;  // Once ranked: in table->occurrences, the next of each half.
    uint32_t rank;       // In table->ids.
    uint32_t rows;
  };

  static uint32_t Sum(const Halves& halves) { return halves.of[0] + halves.of[1]; }

  void MakeRoom(size_t ids);
  void NumberKeys(std::span<const uint64_t> keys, uint32_t* numbers);
  size_t NumberSome(std::span<const uint64_t> keys, uint32_t first, int bits, uint32_t* numbers);
  template <bool fetch>
  void NumberAll(std::span<const uint64_t> keys, uint32_t first, int bits, uint32_t* numbers);
  uint32_t FindOrAdd(uint64_t key, uint32_t first, int bits);
  void Insert(uint32_t first, int bits);
  template <bool by_entry>
  void Count(const Slot& slot, uint32_t first, std::span<const uint32_t> rows);
  void TakeTimes(std::span<const int64_t> event_times, const Slot& slot, uint32_t first);
  void Rank(TableIds* table);
  template <bool plain>
  void TurnAs(uint32_t number, Slot* slot, TableIds* table);

  std::vector<Entry> entries_;  // Open addressing in a part of these, at most half full.
  uint32_t epoch_ = 1;          // Grows by the numbers of a table, so that no entry is cleared.
  size_t slot_ = 0;             // That is added next.
  // By slot: different keys that it had in the last batch. It uses as much of the
  // entries as it will need then: the rest stays out of the cache.
  std::vector<uint32_t> last_keys_;
  bool with_times_ = false;  // Some slot of the table knows event times.
  uint32_t count_ = 0;       // Numbers so far. These have room for as many and more:
  std::vector<uint64_t> ids_;
  std::vector<Number> numbers_;
  std::vector<int64_t> times_;
  IdOrder order_;
  std::vector<uint32_t> entry_of_;     // By occurrence: of the first slot, of the second, …
  std::vector<size_t> entries_begin_;  // By slot, in entry_of_.
  size_t entries_end_ = 0;
};

}  // namespace starling
