// Batch: one step's samples, compiled. It is the only form in which samples
// reach tables and network, in training, `predict` and serving alike.
//
// Axes. The leading axis of everything is request, row or position. A row is
// one impression with its label; rows of one request share its user, whose
// features then stand once; a position is one element of a sequence. In a flat
// log every row is its own request and `request_of_row` is empty.
//
// Ids are unique per physical table, across its slots, ordered by (bucket, id).
// So a pull or push touches each row once and walks the store in its own order.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/batch_name.h"

namespace starling {

enum class Axis : uint8_t { kRequest, kRow, kPosition };

// The occurrences of one id feature.
struct Slot {
  Axis axis = Axis::kRow;
  Axis owner = Axis::kRow;  // Of positions: the request or the row whose sequence they are.
  // CSR over entries(), size + 1: entry i owns index[offsets[i] .. offsets[i + 1]). On
  // kPosition each of these is a position of its own; else they are pooled.
  std::vector<uint32_t> offsets;
  std::vector<uint32_t> index;  // Into TableIds::ids.
  std::vector<float> weights;   // One a value; empty: all 1.
  uint32_t distinct = 0;        // Ids in `index`, each counted once; 0: not counted.

  Axis entries() const { return axis == Axis::kPosition ? owner : axis; }
};

// One occurrence, as seen from its id: entry `entry` of slot `slot`.
struct Occurrence {
  uint32_t slot;   // Index into TableIds::slots.
  uint32_t entry;  // On the slot's axis; a position is its place in Slot::index.
  float weight;    // Its share in the pooled sum: weight / count for mean, etc.
};

// Many of them, in four bytes each where all weigh 1: a batch has up to millions, and writing
// them in the order of ids goes all over the memory that they take.
struct Occurrences {
  int entry_bits = 31;  // The lowest of a code, which hold the entry; the slot has the rest.
  std::vector<uint32_t> codes;  // One an occurrence.
  std::vector<float> weights;   // Of each; empty: all 1.

  static int EntryBits(size_t slots) {
    return std::min(31, 32 - static_cast<int>(std::bit_width(slots - (slots > 0))));
  }
  // Of one slot, entries or positions.
  static size_t EntriesMax(size_t slots) { return size_t{1} << EntryBits(slots); }

  // None, of a table with so many slots.
  void Start(size_t slots) {
    entry_bits = EntryBits(slots);
    codes.clear();
    weights.clear();
  }
  void Add(const Occurrence& o) {
    if (o.weight != 1 && weights.empty()) weights.resize(codes.size(), 1);
    codes.push_back(o.slot << entry_bits | o.entry);
    if (!weights.empty() || o.weight != 1) weights.push_back(o.weight);
  }
  size_t size() const { return codes.size(); }
  Occurrence operator[](size_t i) const {
    return {codes[i] >> entry_bits, codes[i] & ((1u << entry_bits) - 1),
            weights.empty() ? 1 : weights[i]};
  }
};

struct TableIds {
  std::vector<uint64_t> ids;         // (U)
  std::vector<uint32_t> counts;      // (U) occurrences in rows (impressions)
  std::vector<int64_t> event_times;  // (U) latest event that holds the id, seconds; 0: unknown
  std::vector<Slot> slots;           // In the order of the features of this table.
  // The same occurrences turned around: id u owns [offsets[u], offsets[u + 1]),
  // in the order (slot, entry). The backward pass sums in this order, so the
  // result does not depend on threads.
  std::vector<uint32_t> occurrence_offsets;  // (U + 1)
  Occurrences occurrences;
};

// How often what was done to make a batch. Values of requests and of rows stand
// apart, which shows that a user's are taken once a request.
struct BatchWork {
  int64_t hashed = 0;  // Values whose id was computed: in a batch each distinct integer once.
  int64_t scaled = 0;  // Values that became a number of Batch::dense.

  BatchWork& operator+=(const BatchWork& more) {
    hashed += more.hashed;
    scaled += more.scaled;
    return *this;
  }
};

struct Batch {
  BatchName name;
  uint32_t rows = 0;
  uint32_t requests = 0;
  std::vector<uint32_t> request_of_row;  // (rows), ascending; empty: row i is request i
  std::vector<float> labels;             // (rows, labels); empty when there are none (serving)
  std::vector<float> weights;            // (rows) what a row counts for in losses; empty: all 1
  std::vector<float> dense;              // (rows, F) raw features, normalised
  std::vector<uint64_t> groups;          // (rows) hash of the GAUC group; empty without one
  std::vector<int64_t> event_times;      // (rows) seconds; empty without an event time
  std::vector<TableIds> tables;          // By physical table.
  // Event time that the model has seen, at least: the largest of the batch.
  int64_t event_time_max = 0;
  BatchWork request_work, row_work;
};

}  // namespace starling
