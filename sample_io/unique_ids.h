// Turns the occurrences of ids in a table's slots into unique ids in their
// order, and the occurrences around: the hot half of the FeatureCompiler.
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
  // Starts a table that will see at most `occurrences` ids.
  void Start(size_t occurrences);
  // Sets numbers[i] to the number of ids[i]: 0, 1, … in order of first sight.
  void Number(std::span<const uint64_t> ids, uint32_t* numbers);
  // Orders the ids by (bucket, id) and fills all of `table` but its slots'
  // offsets and weights, which must be there, as must slots' index, holding
  // results of Number; these become indices into table->ids. An id of a request
  // counts for all of the request's rows.
  void Finish(const EntryFacts& rows, const EntryFacts& requests, TableIds* table);

 private:
  struct Entry {
    uint64_t id;
    uint32_t number;  // 0: empty; else the id's number + 1.
  };
  uint32_t NumberOf(uint64_t id);
  void Sort(TableIds* table);
  static void TurnAround(const EntryFacts& rows, const EntryFacts& requests, TableIds* table);

  std::vector<Entry> entries_;  // Open addressing; a power of two, at most half full.
  size_t mask_ = 0;
  std::vector<uint64_t> ids_;     // By number.
  std::vector<uint32_t> order_;   // Numbers, sorted.
  std::vector<uint32_t> rank_;    // By number: the place in `order_`.
  std::vector<uint32_t> starts_;  // By bucket, while sorting.
};

}  // namespace starling
