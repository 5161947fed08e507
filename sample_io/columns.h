// ColumnBatch: named columns of values in memory, whatever they came from. The
// Parquet reader fills one from Arrow, the serving node from a request; the
// FeatureCompiler reads nothing else, which is why both give the same features.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace starling {

enum class ColumnType : uint8_t { kInt64, kDouble, kString };

// One column of `rows` values, or lists of values. Narrower integers and
// booleans are widened to int64 when the column is made, float and decimals to
// double; dates and timestamps become whole seconds since 1970, rounded down;
// an unsigned 64-bit integer keeps its bits.
struct Column {
  std::string name;
  ColumnType type = ColumnType::kInt64;
  bool is_list = false;
  int64_t rows = 0;
  // Row i is null if !valid.empty() && !valid[i].
  std::vector<uint8_t> valid;
  // Lists: row i owns values [list_offsets[i], list_offsets[i + 1]). A null
  // element of a list is dropped when the column is made.
  std::vector<int32_t> list_offsets;
  // Exactly one of these, by type. A null row's value is unspecified.
  std::vector<int64_t> ints;
  std::vector<double> doubles;
  std::vector<absl::string_view> strings;
  // A map: `is_list`, the values above are its keys, and entry j of `items`
  // belongs to key j. The items of a map of maps are maps themselves. A key
  // without a value is dropped when the column is made.
  std::shared_ptr<Column> items;
  std::shared_ptr<const void> owner;  // Keeps the bytes behind `strings` alive.

  bool IsNull(int64_t row) const { return !valid.empty() && !valid[row]; }
};

// Places of values (or keys) in a column.
struct ValueRange {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};
// What the row holds: nothing if it is null, one value, or the elements of its list.
inline ValueRange ValuesOf(const Column& column, int64_t row) {
  if (column.IsNull(row)) return {0, 0};
  if (!column.is_list) return {row, row + 1};
  return {column.list_offsets[row], column.list_offsets[row + 1]};
}

struct ColumnBatch {
  int64_t rows = 0;
  std::vector<Column> columns;

  // Null if there is none of that name.
  const Column* Find(absl::string_view name) const;
};

// Puts the rows into `order`: row i of the result is row order[i] of before.
void Reorder(const std::vector<int64_t>& order, ColumnBatch* batch);

// For messages: "integer", "list of strings", "map of strings to integers".
std::string ColumnTypeName(const Column& column);
// The value as a person would write it: "7", "[a, b]", "{a: 7}". REQUIRES: row is not null.
std::string ValueText(const Column& column, int64_t row);

}  // namespace starling
