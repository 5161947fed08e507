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
  // Its rows are the batch's requests: one value for all rows of a request.
  bool by_request = false;
  // A member of a list of structs, as it was read: row i of the file owns rows
  // [outer_offsets[i], outer_offsets[i + 1]) of this column. FormRequests takes it away.
  std::vector<int32_t> outer_offsets;

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

// Rows that share a user may stand as one request (see requests.h). Then row i
// belongs to request request_of_row[i], ascending, and a column has either
// `rows` rows or, by_request, `requests` of them.
struct ColumnBatch {
  int64_t rows = 0;
  int64_t requests = 0;                  // 0: the flat form.
  std::vector<uint32_t> request_of_row;  // (rows); empty in the flat form.
  std::vector<Column> columns;
  // As it was read under a predicate: row i was this row of the split; empty: row i.
  std::vector<int64_t> part_rows;

  bool flat() const { return requests == 0; }
  // Where in `column` the value of `row` stands.
  int64_t EntryOf(const Column& column, int64_t row) const {
    return column.by_request ? request_of_row[row] : row;
  }

  // Null if there is none of that name.
  const Column* Find(absl::string_view name) const;
};

// Row i of the result is row rows[i] of before; a row may be taken several times, or not at all.
void PickRows(const std::vector<int64_t>& rows, Column* column);

// As PickRows for a column as it was read: `rows` are those of the file, even of
// a column that has several of its own in each.
void PickFileRows(const std::vector<int64_t>& rows, Column* column);

// Puts the rows, or in a batch of requests these with all their rows, into
// `order`: row (request) i of the result is order[i] of before.
void Reorder(const std::vector<int64_t>& order, ColumnBatch* batch);

// The first row of every request, and behind the last one the number of rows.
// REQUIRES: the batch is not flat.
std::vector<int64_t> RequestStarts(const ColumnBatch& batch);

// For messages: "integer", "list of strings", "map of strings to integers".
std::string ColumnTypeName(const Column& column);
// The value as a person would write it: "7", "[a, b]", "{a: 7}". REQUIRES: row is not null.
std::string ValueText(const Column& column, int64_t row);

}  // namespace starling
