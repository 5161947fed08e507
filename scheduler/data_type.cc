#include "scheduler/data_type.h"

#include <initializer_list>

#include "absl/strings/match.h"

namespace starling {
namespace {

// The T of "list<item: T>", "dictionary<values=T, indices=…>"; "" if it is neither.
absl::string_view Inside(absl::string_view type, absl::string_view open, absl::string_view before,
                         absl::string_view after) {
  if (!absl::StartsWith(type, open)) return "";
  size_t begin = type.find(before);
  if (begin == absl::string_view::npos) return "";
  begin += before.size();
  size_t end = after.empty() ? type.rfind('>') : type.find(after, begin);
  return end == absl::string_view::npos ? "" : type.substr(begin, end - begin);
}

}  // namespace

DataType DataTypeNamed(absl::string_view type) {
  for (absl::string_view list : {"list<", "large_list<", "fixed_size_list<"}) {
    if (absl::string_view element = Inside(type, list, ": ", ""); !element.empty()) {
      // "item: int64 not null" is an int64.
      element = element.substr(0, element.find(" not null"));
      DataType inner = DataTypeNamed(element);
      return {inner.list ? DataType::kOther : inner.kind, true};
    }
  }
  if (absl::string_view values = Inside(type, "dictionary<", "values=", ","); !values.empty()) {
    return DataTypeNamed(values);
  }
  // "map<string, double>"; a map's keys are never maps.
  if (absl::StartsWith(type, "map<")) {
    const size_t comma = type.find(", ");
    if (comma == absl::string_view::npos) return {};
    const DataType items = DataTypeNamed(type.substr(comma + 2));
    return {DataType::kMap, false, items.list ? DataType::kOther : items.kind};
  }
  auto is = [type](std::initializer_list<absl::string_view> starts) {
    for (absl::string_view s : starts) {
      if (absl::StartsWith(type, s)) return true;
    }
    return false;
  };
  if (is({"int", "uint", "bool"})) return {DataType::kInteger};
  if (is({"halffloat", "float", "double", "decimal"})) return {DataType::kReal};
  if (is({"string", "large_string", "utf8", "binary", "large_binary", "fixed_size_binary"}))
    return {DataType::kString};
  if (is({"timestamp", "date"})) return {DataType::kTime};
  if (type == "null") return {DataType::kNull};
  return {};
}

}  // namespace starling
