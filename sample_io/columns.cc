#include "sample_io/columns.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace starling {
namespace {

template <typename T>
void Pick(const std::vector<int64_t>& from, std::vector<T>* values) {
  if (values->empty()) return;
  // A thread picks from column after column: the old values' memory takes the next one's.
  static thread_local std::vector<T> picked;
  picked.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) picked[i] = (*values)[from[i]];
  values->swap(picked);
}

// The elements of the lists `rows`, which begin at `offsets`; there are `count` of them.
template <typename T>
void PickLists(const std::vector<int64_t>& rows, const std::vector<int32_t>& offsets, size_t count,
               std::vector<T>* values) {
  if (values->empty()) return;
  static thread_local std::vector<T> picked;
  picked.clear();
  picked.reserve(count);
  const auto all = values->begin();
  for (int64_t row : rows) {
    picked.insert(picked.end(), all + offsets[row], all + offsets[row + 1]);
  }
  values->swap(picked);
}

// Where the lists `rows` begin once they are picked.
std::vector<int32_t> PickOffsets(const std::vector<int64_t>& rows,
                                 const std::vector<int32_t>& offsets) {
  std::vector<int32_t> picked = {0};
  picked.reserve(rows.size() + 1);
  for (int64_t row : rows) picked.push_back(picked.back() + offsets[row + 1] - offsets[row]);
  return picked;
}

// The places of the elements of the lists `rows`.
std::vector<int64_t> PlacesOf(const std::vector<int64_t>& rows,
                              const std::vector<int32_t>& offsets) {
  std::vector<int64_t> places;
  for (int64_t row : rows) {
    for (int64_t i = offsets[row]; i < offsets[row + 1]; ++i) places.push_back(i);
  }
  return places;
}

}  // namespace

const Column* ColumnBatch::Find(absl::string_view name) const {
  for (const Column& column : columns) {
    if (column.name == name) return &column;
  }
  return nullptr;
}

void PickRows(const std::vector<int64_t>& rows, Column* column) {
  std::vector<int32_t> offsets;
  if (column->is_list) offsets = PickOffsets(rows, column->list_offsets);
  auto pick = [&](auto* values) {
    column->is_list ? PickLists(rows, column->list_offsets, offsets.back(), values)
                    : Pick(rows, values);
  };
  Pick(rows, &column->valid);
  pick(&column->ints);
  pick(&column->doubles);
  pick(&column->strings);
  column->rows = static_cast<int64_t>(rows.size());
  if (column->items != nullptr) {
    auto items = std::make_shared<Column>(*column->items);
    PickRows(PlacesOf(rows, column->list_offsets), items.get());
    column->items = std::move(items);
  }
  column->list_offsets = std::move(offsets);
}

void PickFileRows(const std::vector<int64_t>& rows, Column* column) {
  if (column->outer_offsets.empty()) return PickRows(rows, column);
  PickRows(PlacesOf(rows, column->outer_offsets), column);
  column->outer_offsets = PickOffsets(rows, column->outer_offsets);
}

namespace {

// The rows of the requests of `order`; sets the new request_of_row.
std::vector<int64_t> ReorderRequests(const std::vector<int64_t>& order, ColumnBatch* batch) {
  const std::vector<int64_t> first = RequestStarts(*batch);
  std::vector<int64_t> rows;
  batch->request_of_row.clear();
  for (size_t r = 0; r < order.size(); ++r) {
    for (int64_t row = first[order[r]]; row < first[order[r] + 1]; ++row) {
      rows.push_back(row);
      batch->request_of_row.push_back(static_cast<uint32_t>(r));
    }
  }
  return rows;
}

}  // namespace

void Reorder(const std::vector<int64_t>& order, ColumnBatch* batch) {
  const bool flat = batch->flat();
  std::vector<int64_t> of_requests;
  if (!flat) {
    of_requests = ReorderRequests(order, batch);
    batch->requests = static_cast<int64_t>(order.size());
  }
  const std::vector<int64_t>& rows = flat ? order : of_requests;
  for (Column& column : batch->columns) {
    PickRows(column.by_request ? order : rows, &column);
  }
  batch->rows = static_cast<int64_t>(rows.size());
}

std::vector<int64_t> RequestStarts(const ColumnBatch& batch) {
  std::vector<int64_t> starts(batch.requests + 1, 0);
  // Each row says where its request ends, until a later one does.
  for (int64_t row = 0; row < batch.rows; ++row) starts[batch.request_of_row[row] + 1] = row + 1;
  for (int64_t r = 0; r < batch.requests; ++r) starts[r + 1] = std::max(starts[r], starts[r + 1]);
  return starts;
}

std::string ColumnTypeName(const Column& column) {
  std::string name = column.type == ColumnType::kInt64    ? "integer"
                     : column.type == ColumnType::kDouble ? "floating-point number"
                                                          : "string";
  if (column.items == nullptr) return column.is_list ? "list of " + name + "s" : name;
  return "map of " + name + "s to " + ColumnTypeName(*column.items) + "s";
}

std::string ValueText(const Column& column, int64_t row) {
  auto element = [&](int64_t i) -> std::string {
    switch (column.type) {
      case ColumnType::kInt64:
        return std::to_string(column.ints[i]);
      case ColumnType::kDouble:
        return absl::StrCat(column.doubles[i]);
      case ColumnType::kString:
        return std::string(column.strings[i]);
    }
    return "";
  };
  if (!column.is_list) return element(row);
  const bool map = column.items != nullptr;
  std::string text = map ? "{" : "[";
  for (int64_t i = column.list_offsets[row]; i < column.list_offsets[row + 1]; ++i) {
    absl::StrAppend(&text, text.size() > 1 ? ", " : "", element(i));
    if (map) absl::StrAppend(&text, ": ", ValueText(*column.items, i));
  }
  return text + (map ? "}" : "]");
}

}  // namespace starling
