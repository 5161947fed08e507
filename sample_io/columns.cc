#include "sample_io/columns.h"

#include "absl/strings/str_cat.h"

namespace starling {

const Column* ColumnBatch::Find(absl::string_view name) const {
  for (const Column& column : columns) {
    if (column.name == name) return &column;
  }
  return nullptr;
}

std::string ColumnTypeName(const Column& column) {
  std::string name = column.type == ColumnType::kInt64    ? "integer"
                     : column.type == ColumnType::kDouble ? "floating-point number"
                                                          : "string";
  return column.is_list ? "list of " + name + "s" : name;
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
  std::string text = "[";
  for (int64_t i = column.list_offsets[row]; i < column.list_offsets[row + 1]; ++i) {
    absl::StrAppend(&text, text.size() > 1 ? ", " : "", element(i));
  }
  return text + "]";
}

}  // namespace starling
