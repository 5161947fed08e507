#include "dense_net/take_rows.h"

namespace starling {
namespace {

struct Range {
  uint32_t first = 0, end = 0;
};

template <typename T>
void Slice(const std::vector<T>& from, size_t first, size_t size, std::vector<T>* to) {
  if (from.empty()) return to->clear();
  to->assign(from.begin() + first, from.begin() + first + size);
}

// Where a part's entries of one slot, and their values, begin in the whole's.
struct SlotPart {
  Range entries, values;
};

SlotPart TakeSlot(const Slot& whole, Range entries, Slot* part) {
  const Range values{whole.offsets[entries.first], whole.offsets[entries.end]};
  part->axis = whole.axis;
  part->owner = whole.owner;
  Slice(whole.offsets, entries.first, entries.end - entries.first + 1, &part->offsets);
  for (uint32_t& offset : part->offsets) offset -= values.first;
  Slice(whole.index, values.first, values.end - values.first, &part->index);
  Slice(whole.weights, values.first, values.end - values.first, &part->weights);
  return {entries, values};
}

void TakeTable(const TableIds& whole, const std::vector<SlotPart>& slots, TableIds* part,
               std::vector<uint32_t>* whole_of, std::vector<uint32_t>* part_of) {
  part_of->assign(whole.ids.size(), kNoId);
  for (const Slot& slot : part->slots) {
    for (uint32_t id : slot.index) (*part_of)[id] = 0;
  }
  whole_of->clear();
  part->ids.clear();
  part->occurrences.Start(whole.slots.size());
  part->occurrence_offsets.assign(1, 0);
  for (uint32_t u = 0; u < whole.ids.size(); ++u) {
    if ((*part_of)[u] == kNoId) continue;
    (*part_of)[u] = static_cast<uint32_t>(whole_of->size());
    whole_of->push_back(u);
    part->ids.push_back(whole.ids[u]);
    for (uint32_t o = whole.occurrence_offsets[u]; o < whole.occurrence_offsets[u + 1]; ++o) {
      Occurrence occurrence = whole.occurrences[o];
      const bool position = part->slots[occurrence.slot].axis == Axis::kPosition;
      const Range& in = position ? slots[occurrence.slot].values : slots[occurrence.slot].entries;
      if (occurrence.entry < in.first || occurrence.entry >= in.end) continue;
      occurrence.entry -= in.first;
      part->occurrences.Add(occurrence);
    }
    part->occurrence_offsets.push_back(static_cast<uint32_t>(part->occurrences.size()));
  }
  for (Slot& slot : part->slots) {
    for (uint32_t& id : slot.index) id = (*part_of)[id];
  }
}

}  // namespace

void TakeRows(const Batch& whole, uint32_t first, uint32_t rows, Batch* part, PartIds* ids) {
  const size_t in_all = whole.rows;
  const auto take = [&](const auto& from, auto* to) {
    const size_t width = in_all == 0 ? 0 : from.size() / in_all;
    Slice(from, first * width, rows * width, to);
  };
  const Range by_row{first, first + rows};
  Range requests = by_row;
  part->name = whole.name;
  part->rows = rows;
  take(whole.labels, &part->labels);
  take(whole.weights, &part->weights);
  take(whole.dense, &part->dense);
  take(whole.groups, &part->groups);
  take(whole.request_of_row, &part->request_of_row);
  if (!whole.request_of_row.empty()) {
    requests =
        rows == 0 ? Range{} : Range{part->request_of_row.front(), part->request_of_row.back() + 1};
    for (uint32_t& request : part->request_of_row) request -= requests.first;
  }
  part->requests = requests.end - requests.first;

  part->tables.resize(whole.tables.size());
  ids->whole_of.resize(whole.tables.size());
  ids->part_of.resize(whole.tables.size());
  std::vector<SlotPart> slots;
  for (size_t t = 0; t < whole.tables.size(); ++t) {
    slots.clear();
    part->tables[t].slots.resize(whole.tables[t].slots.size());
    for (size_t s = 0; s < whole.tables[t].slots.size(); ++s) {
      const Slot& slot = whole.tables[t].slots[s];
      const Range& entries = slot.entries() == Axis::kRequest ? requests : by_row;
      slots.push_back(TakeSlot(slot, entries, &part->tables[t].slots[s]));
    }
    TakeTable(whole.tables[t], slots, &part->tables[t], &ids->whole_of[t], &ids->part_of[t]);
  }
}

}  // namespace starling
