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

void RequestsOf(const ColumnBatch& columns, std::span<const int64_t> rows,
                std::vector<int64_t>* requests) {
  requests->resize(columns.flat() ? 0 : rows.size());
  for (size_t i = 0; i < requests->size(); ++i) (*requests)[i] = columns.request_of_row[rows[i]];
}

// A branch on whether a row begins a request would be guessed wrong: what is written
// of a request by its first rows, the next ones overwrite.
void KeptRequests::Fill(const ColumnBatch& columns, std::span<const int64_t> kept, Batch* batch) {
  const size_t n = columns.flat() ? 0 : kept.size();
  entries.resize(n + 1);
  rows.resize(n + 1);
  batch->request_of_row.resize(n);
  int64_t last = -1;
  size_t count = 0;
  for (size_t i = 0; i < n; ++i) {
    const int64_t request = columns.request_of_row[kept[i]];
    count += request != last;
    last = request;
    entries[count] = request;
    rows[count] = static_cast<uint32_t>(i) + 1;  // Where the request ends, for now.
    batch->request_of_row[i] = static_cast<uint32_t>(count) - 1;
  }
  uint32_t begin = 0;
  for (size_t r = 0; r < count; ++r) {
    entries[r] = entries[r + 1];
    rows[r] = rows[r + 1] - begin;
    begin = rows[r + 1];
  }
  entries.resize(count);
  rows.resize(count);
  times.assign(batch->event_times.empty() ? 0 : count, 0);
  for (size_t i = 0; !batch->event_times.empty() && i < n; ++i) {
    int64_t& time = times[batch->request_of_row[i]];
    time = std::max(time, batch->event_times[i]);
  }
  if (n > 0) batch->requests = static_cast<uint32_t>(count);
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
