#include "sample_io/requests.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace starling {
namespace {

bool SameElement(const Column& column, int64_t a, int64_t b) {
  switch (column.type) {
    case ColumnType::kInt64:
      return column.ints[a] == column.ints[b];
    case ColumnType::kDouble:  // A NaN equals itself here: it is the same value, if a bad one.
      return column.doubles[a] == column.doubles[b] ||
             (column.doubles[a] != column.doubles[a] && column.doubles[b] != column.doubles[b]);
    case ColumnType::kString:
      return column.strings[a] == column.strings[b];
  }
  return false;
}

bool SameValue(const Column& column, int64_t a, int64_t b) {
  if (column.IsNull(a) || column.IsNull(b)) return column.IsNull(a) == column.IsNull(b);
  if (!column.is_list) return SameElement(column, a, b);
  const int32_t from = column.list_offsets[a], other = column.list_offsets[b];
  const int32_t size = column.list_offsets[a + 1] - from;
  if (column.list_offsets[b + 1] - other != size) return false;
  for (int32_t i = 0; i < size; ++i) {
    if (!SameElement(column, from + i, other + i)) return false;
    if (column.items != nullptr && !SameValue(*column.items, from + i, other + i)) return false;
  }
  return true;
}

std::string TextOf(const Column& column, int64_t row) {
  return column.IsNull(row) ? "null" : ValueText(column, row);
}

// Keeps the rows `first` of a column that has one value a request.
absl::Status Share(const std::vector<int64_t>& first, const ColumnBatch& batch,
                   const std::string& key, Column* column) {
  for (int64_t row = 0; row < batch.rows; ++row) {
    const int64_t of = first[batch.request_of_row[row]];
    if (row == of || SameValue(*column, of, row)) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("column ", column->name, ", row ", row, ": the value is ",
                     TextOf(*column, row), ", but ", TextOf(*column, of), " in row ", of,
                     " of the same ", key, "; it is not the user's: take it out of data.user"));
  }
  PickRows(first, column);
  column->by_request = true;
  return absl::OkStatus();
}

absl::Status GroupRows(const FeatureSet& features, ColumnBatch* batch) {
  const std::string& key = features.request();
  const Column* keys = batch->Find(key);
  if (keys == nullptr) return absl::OkStatus();  // Scoring does not need it.
  if (keys->is_list || keys->type == ColumnType::kDouble) {
    return absl::FailedPreconditionError(
        absl::StrCat("column ", key, ": the key of requests must be an integer or a string"));
  }
  std::vector<int64_t> first;
  batch->request_of_row.resize(batch->rows);
  for (int64_t row = 0; row < batch->rows; ++row) {
    const bool same = row > 0 && !keys->IsNull(row) && SameValue(*keys, row - 1, row);
    if (!same) first.push_back(row);
    batch->request_of_row[row] = static_cast<uint32_t>(first.size() - 1);
  }
  batch->requests = static_cast<int64_t>(first.size());
  for (Column& column : batch->columns) {
    const auto& user = features.user();
    if (std::find(user.begin(), user.end(), column.name) == user.end()) continue;
    RETURN_IF_ERROR(Share(first, *batch, key, &column));
  }
  return absl::OkStatus();
}

absl::string_view ListOf(const Column& column) {
  return absl::string_view(column.name).substr(0, column.name.rfind('.'));
}

absl::Status Unnest(const Column& rows, ColumnBatch* batch) {
  const std::vector<int32_t> offsets = rows.outer_offsets;
  const std::string list(ListOf(rows));
  for (Column& column : batch->columns) {
    column.by_request = column.outer_offsets.empty();
    if (column.by_request) continue;
    if (ListOf(column) != list || column.outer_offsets != offsets) {
      return absl::FailedPreconditionError(
          absl::StrCat("columns ", list, ".* and ", column.name,
                       " are members of different lists; only one list can be the rows"));
    }
    column.outer_offsets.clear();
  }
  batch->requests = static_cast<int64_t>(offsets.size()) - 1;
  batch->rows = offsets.back();
  batch->request_of_row.reserve(batch->rows);
  for (int64_t r = 0; r < batch->requests; ++r) {
    batch->request_of_row.resize(offsets[r + 1], static_cast<uint32_t>(r));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status FormRequests(const FeatureSet& features, ColumnBatch* batch) {
  for (const Column& column : batch->columns) {
    if (!column.outer_offsets.empty()) return Unnest(column, batch);
  }
  return features.request().empty() ? absl::OkStatus() : GroupRows(features, batch);
}

std::vector<int64_t> RequestsOf(const ColumnBatch& columns, std::span<const int64_t> rows) {
  if (columns.flat()) return {};
  const std::vector<uint32_t>& of = columns.request_of_row;
  if (rows.empty()) return {of.begin(), of.end()};
  std::vector<int64_t> requests;
  requests.reserve(rows.size());
  for (int64_t row : rows) requests.push_back(of[row]);
  return requests;
}

void KeptRequests::Fill(const ColumnBatch& columns, std::span<const int64_t> kept, Batch* batch) {
  entries.clear();
  rows.clear();
  times.clear();
  if (columns.flat()) return;
  for (size_t i = 0; i < kept.size(); ++i) {
    const int64_t request = columns.request_of_row[kept[i]];
    if (entries.empty() || entries.back() != request) {
      entries.push_back(request);
      rows.push_back(0);
      times.push_back(0);
    }
    ++rows.back();
    if (!batch->event_times.empty()) times.back() = std::max(times.back(), batch->event_times[i]);
    batch->request_of_row.push_back(static_cast<uint32_t>(entries.size() - 1));
  }
  batch->requests = static_cast<uint32_t>(entries.size());
}

void FlattenRequests(ColumnBatch* batch) {
  if (batch->flat()) return;
  const std::vector<int64_t> request(batch->request_of_row.begin(), batch->request_of_row.end());
  for (Column& column : batch->columns) {
    if (!column.by_request) continue;
    PickRows(request, &column);
    column.by_request = false;
  }
  batch->requests = 0;
  batch->request_of_row.clear();
}

}  // namespace starling
