#include "sample_io/slot_values.h"

#include <algorithm>
#include <numeric>

#include "sample_io/null_gaps.h"

namespace starling {
namespace {

// Where the values of each entry stand, of lists. Returns their number.
size_t FillListOffsets(const Column& column, std::span<const int64_t> entries, uint32_t* offsets,
                       uint32_t* entry_of) {
  uint32_t end = 0;
  for (size_t e = 0; e < entries.size(); ++e) {
    const uint32_t begin = end;
    offsets[e] = begin;
    end += static_cast<uint32_t>(ValuesOf(column, entries[e]).size());
    std::fill(entry_of + begin, entry_of + end, static_cast<uint32_t>(e));
  }
  return end;
}

// The same where an entry has one value or none, whose key(row) goes to `out`. What
// a null writes, the next value overwrites: no branch to guess wrong.
template <typename Key>
size_t FillScalars(const uint8_t* valid, std::span<const int64_t> entries, const Key& key,
                   uint32_t* offsets, uint32_t* entry_of, uint64_t* out) {
  const int64_t* rows = entries.data();
  uint32_t next = 0;
  for (size_t e = 0, end = entries.size(); e < end; ++e) {
    offsets[e] = next;
    entry_of[next] = static_cast<uint32_t>(e);
    out[next] = key(rows[e]);
    next += valid[rows[e]] != 0;
  }
  return next;
}

}  // namespace

size_t ValuesMax(const Column& column, std::span<const int64_t> entries) {
  if (!column.is_list) return entries.size();
  size_t values = 0;
  for (int64_t entry : entries) values += static_cast<size_t>(ValuesOf(column, entry).size());
  return values;
}

UniqueIds::Keys FillValues(const Column& column, std::span<const int64_t> entries, bool run,
                           uint64_t seed, std::vector<uint64_t>* room, uint32_t* entry_of,
                           Slot* slot) {
  const size_t n = entries.size(), most = ValuesMax(column, entries);
  const bool ints = column.type == ColumnType::kInt64;
  const size_t stored = ints ? column.ints.size() : column.strings.size();
  if (most == 0 || stored == 0) {  // A column without a value may be of any type.
    slot->offsets.assign(n + 1, 0);
    return {};
  }
  slot->offsets.resize(n + 1);
  uint32_t* offsets = slot->offsets.data();
  if (room->size() < most + 1) room->resize(most + 1);
  uint64_t* out = room->data();
  size_t values = most;
  if (column.is_list) {
    FillListOffsets(column, entries, offsets, entry_of);
  } else if (column.valid.empty()) {
    std::iota(offsets, offsets + n, 0);
    std::iota(entry_of, entry_of + n, 0);
  } else if (ints && run) {
    const int64_t first = entries.front();
    values = PickValues(reinterpret_cast<const uint64_t*>(&column.ints[first]),
                        &column.valid[first], n, offsets, entry_of, out);
  } else if (ints) {
    auto key = [from = column.ints.data()](int64_t row) {
      return static_cast<uint64_t>(from[row]);
    };
    values = FillScalars(column.valid.data(), entries, key, offsets, entry_of, out);
  } else {
    auto key = [&](int64_t row) {
      return column.IsNull(row) ? 0 : HashBytes(column.strings[row], seed);
    };
    values = FillScalars(column.valid.data(), entries, key, offsets, entry_of, out);
  }
  offsets[n] = static_cast<uint32_t>(values);
  const UniqueIds::Keys keys = {{out, values}, !ints, seed};
  if (!column.is_list && !column.valid.empty()) return keys;
  // Where values stand in the column as they do in the slot, they are not copied.
  auto begin = [&](int64_t row) {
    return column.is_list ? int64_t{column.list_offsets[row]} : row;
  };
  const int64_t first = begin(entries.front());
  const bool as_stored = run && begin(entries.back() + 1) - first == static_cast<int64_t>(values);
  if (ints && as_stored) {
    return {{reinterpret_cast<const uint64_t*>(&column.ints[first]), values}, false, seed};
  }
  for (size_t e = 0; e < n; ++e) {
    int64_t from = begin(entries[e]);
    for (uint32_t i = offsets[e]; i < offsets[e + 1]; ++i, ++from) {
      out[i] =
          ints ? static_cast<uint64_t>(column.ints[from]) : HashBytes(column.strings[from], seed);
    }
  }
  return keys;
}

}  // namespace starling
