#include "sample_io/slot_values.h"

#include <numeric>

namespace starling {
namespace {

size_t FillListOffsets(const Column& column, std::span<const int64_t> entries, uint32_t* offsets) {
  size_t end = 0;
  for (size_t e = 0; e < entries.size(); ++e) {
    offsets[e] = static_cast<uint32_t>(end);
    end += static_cast<size_t>(ValuesOf(column, entries[e]).size());
  }
  return end;
}

// True if the entries are consecutive, as those of a batch without a bad row are.
bool IsRun(std::span<const int64_t> entries) {
  int64_t gaps = 0;
  for (size_t e = 1; e < entries.size(); ++e) gaps |= (entries[e] - entries[e - 1]) ^ 1;
  return gaps == 0;
}

}  // namespace

size_t FillOffsets(const Column& column, std::span<const int64_t> entries, Slot* slot) {
  slot->offsets.resize(entries.size() + 1);
  uint32_t* offsets = slot->offsets.data();
  size_t end = entries.size();
  if (column.is_list) {
    end = FillListOffsets(column, entries, offsets);
  } else if (column.valid.empty()) {
    std::iota(offsets, offsets + end, 0);
  } else {
    uint32_t next = 0;
    for (size_t e = 0; e < entries.size(); ++e) {
      offsets[e] = next;
      next += column.valid[entries[e]] != 0;
    }
    end = next;
  }
  offsets[entries.size()] = static_cast<uint32_t>(end);
  return end;
}

UniqueIds::Keys KeysOf(const Column& column, std::span<const int64_t> entries, uint64_t seed,
                       const Slot& slot, std::vector<uint64_t>* room) {
  const uint32_t* offsets = slot.offsets.data();
  const size_t n = slot.offsets.back();
  if (n == 0) return {};  // A column without a value may be of any type.
  const bool ints = column.type == ColumnType::kInt64;
  const bool run = IsRun(entries);
  if (ints && run && !column.is_list && column.valid.empty()) {
    return {{reinterpret_cast<const uint64_t*>(&column.ints[entries[0]]), n}, false, seed};
  }
  if (room->size() < n + 1) room->resize(n + 1);
  uint64_t* out = room->data();
  auto key = [&](int64_t i) {
    return ints ? static_cast<uint64_t>(column.ints[i]) : HashBytes(column.strings[i], seed);
  };
  if (column.is_list) {
    for (size_t e = 0; e < entries.size(); ++e) {
      int64_t from = ValuesOf(column, entries[e]).begin;
      for (uint32_t i = offsets[e]; i < offsets[e + 1]; ++i) out[i] = key(from++);
    }
  } else if (ints) {
    // What a null writes, the next value overwrites: no branch to guess wrong.
    const int64_t* values = run ? &column.ints[entries[0]] : column.ints.data();
    for (size_t e = 0; e < entries.size(); ++e) {
      out[offsets[e]] = static_cast<uint64_t>(values[run ? e : entries[e]]);
    }
  } else {
    for (size_t e = 0; e < entries.size(); ++e) {
      if (offsets[e] != offsets[e + 1]) out[offsets[e]] = key(entries[e]);
    }
  }
  return {{out, n}, !ints, seed};
}

}  // namespace starling
