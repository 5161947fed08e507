#include "sample_io/map_column.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"

namespace starling {
namespace {

// An empty map of strings to strings, or to such maps.
void StartMap(bool nested, Column* column) {
  StartLists(ColumnType::kString, column);
  column->items = std::make_shared<Column>();
  column->items->type = ColumnType::kString;
  if (nested) StartMap(false, column->items.get());
}

// Adds the pairs of "k:v,k:v" to a map's keys and items. False if it is none.
bool AddPairs(absl::string_view text, absl::string_view separator, Column* map) {
  for (absl::string_view pair : absl::StrSplit(text, separator, absl::SkipEmpty())) {
    const size_t colon = pair.rfind(':');
    if (colon == absl::string_view::npos) return false;
    map->strings.push_back(pair.substr(0, colon));
    map->items->strings.push_back(pair.substr(colon + 1));
    ++map->items->rows;
  }
  return true;
}

// The same for "pk^sk:v,sk:v|pk^sk:v".
bool AddGroups(absl::string_view text, Column* map) {
  for (absl::string_view group : absl::StrSplit(text, '|', absl::SkipEmpty())) {
    const size_t hat = group.find('^');
    if (hat == absl::string_view::npos) return false;
    map->strings.push_back(group.substr(0, hat));
    const bool ok = AddPairs(group.substr(hat + 1), ",", map->items.get());
    map->items->list_offsets.push_back(static_cast<int32_t>(map->items->strings.size()));
    ++map->items->rows;
    if (!ok) return false;
  }
  return true;
}

// REQUIRES: the column holds strings, or no value at all.
absl::Status Parse(const ColumnView& view, int64_t rows, bool nested, absl::string_view separator,
                   Column* parsed, RowFaults* faults) {
  const Column& from = *view.column;
  parsed->name = from.name;
  parsed->rows = rows;
  StartMap(nested, parsed);
  for (int64_t row = 0; row < rows; ++row) {
    const ValueRange values = view.ValuesAt(row);
    for (int64_t i = values.begin; i < values.end; ++i) {
      if (nested ? AddGroups(from.strings[i], parsed)
                 : AddPairs(from.strings[i], separator, parsed)) {
        continue;
      }
      faults->Add(row, from.name,
                  absl::StrCat("\"", from.strings[i].substr(0, 60), "\" is not ",
                               nested ? "pk^sk:v,sk:v|pk^sk:v" : "key:value,key:value"));
    }
    RETURN_IF_ERROR(EndRow(parsed));
  }
  return absl::OkStatus();
}

absl::StatusOr<double> NumberIn(const Column& values, int64_t i) {
  if (values.type != ColumnType::kString) return NumberAt(values, i);
  double number = 0;
  if (absl::SimpleAtod(values.strings[i], &number)) return number;
  return absl::InvalidArgumentError(
      absl::StrCat("the value \"", values.strings[i].substr(0, 60), "\" is not a number"));
}

double Join(double a, double b, DeriveStep::Combine combine) {
  switch (combine) {
    case DeriveStep::MIN:
      return std::min(a, b);
    case DeriveStep::MAX:
      return std::max(a, b);
    default:
      return a + b;
  }
}

}  // namespace

absl::StatusOr<ColumnView> AsMap(const ColumnView& view, int64_t rows, absl::string_view separator,
                                 Column* parsed, RowFaults* faults) {
  const Column& from = *view.column;
  if (from.items != nullptr && from.items->items == nullptr) return view;
  const bool text = from.type == ColumnType::kString && from.items == nullptr;
  if (!text && !HasNoValue(from)) return WrongType(from, "a map", "a map, or key:value strings");
  RETURN_IF_ERROR(Parse(view, rows, false, separator, parsed, faults));
  return ColumnView{parsed, {}};
}

absl::StatusOr<ColumnView> AsNestedMap(const ColumnView& view, int64_t rows, Column* parsed,
                                       RowFaults* faults) {
  const Column& from = *view.column;
  if (from.items != nullptr && from.items->items != nullptr) return view;
  const bool text = from.type == ColumnType::kString && from.items == nullptr;
  if (!text && !HasNoValue(from)) {
    return WrongType(from, "a nested map", "a map of maps, or pk^sk:v strings");
  }
  RETURN_IF_ERROR(Parse(view, rows, true, ",", parsed, faults));
  return ColumnView{parsed, {}};
}

int64_t FindKey(const Column& keys, ValueRange range, const Column& column, int64_t i) {
  auto find = [&](auto&& values, auto value) -> int64_t {
    auto begin = values.begin() + range.begin, end = values.begin() + range.end;
    auto it = std::find(begin, end, value);
    return it == end ? -1 : it - values.begin();
  };
  if (keys.type == ColumnType::kString) {
    if (column.type == ColumnType::kString) return find(keys.strings, column.strings[i]);
    return find(keys.strings, absl::string_view(absl::StrCat(column.ints[i])));
  }
  if (column.type == ColumnType::kInt64) return find(keys.ints, column.ints[i]);
  int64_t value = 0;
  const absl::string_view text = column.strings[i];
  if (!absl::SimpleAtoi(text, &value) || absl::StrCat(value) != text) return -1;
  return find(keys.ints, value);
}

absl::Status FoundValues::Start(const Column& map, const Column& values, Derived* out) const {
  if (!as_id_) return absl::OkStatus();
  if (values.type == ColumnType::kDouble && !HasNoValue(map)) {
    return WrongType(map, "a map whose values are ids", "a map to integers or strings");
  }
  StartLists(ColumnType::kString, &out->column);
  return absl::OkStatus();
}

absl::Status FoundValues::AddRow(const Column& map, const Column& values,
                                 std::span<const int64_t> found, int64_t row, Derived* out,
                                 RowFaults* faults) const {
  if (as_id_) {
    for (int64_t i : found) {
      out->column.strings.push_back(values.type == ColumnType::kString
                                        ? values.strings[i]
                                        : out->texts.emplace_back(absl::StrCat(values.ints[i])));
    }
    return EndRow(&out->column);
  }
  std::optional<double> result;
  for (int64_t i : found) {
    absl::StatusOr<double> number = NumberIn(values, i);
    if (!number.ok()) {
      faults->Add(row, map.name, std::string(number.status().message()));
    } else {
      result = result ? Join(*result, *number, combine_) : *number;
    }
  }
  if (result && combine_ == DeriveStep::MEAN) *result /= static_cast<double>(found.size());
  PushNumber(result, &out->column);
  return absl::OkStatus();
}

}  // namespace starling
