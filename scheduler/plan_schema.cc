// CheckSchema: do the columns that a plan reads exist in the data, with types that fit?
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "scheduler/plan.h"

namespace starling {
namespace {

enum class Kind { kInteger, kReal, kString, kTime, kNull, kOther };

struct DataType {
  Kind kind = Kind::kOther;
  bool list = false;
};

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

// Arrow's own names of types (DataType::ToString).
DataType TypeNamed(absl::string_view type) {
  for (absl::string_view list : {"list<", "large_list<", "fixed_size_list<"}) {
    if (absl::string_view element = Inside(type, list, ": ", ""); !element.empty()) {
      // "item: int64 not null" is an int64.
      element = element.substr(0, element.find(" not null"));
      return {TypeNamed(element).kind, true};
    }
  }
  if (absl::string_view values = Inside(type, "dictionary<", "values=", ","); !values.empty()) {
    return TypeNamed(values);
  }
  auto is = [type](std::initializer_list<absl::string_view> starts) {
    for (absl::string_view s : starts) {
      if (absl::StartsWith(type, s)) return true;
    }
    return false;
  };
  if (is({"int", "uint", "bool"})) return {Kind::kInteger};
  if (is({"halffloat", "float", "double", "decimal"})) return {Kind::kReal};
  if (is({"string", "large_string", "utf8", "binary", "large_binary", "fixed_size_binary"}))
    return {Kind::kString};
  if (is({"timestamp", "date"})) return {Kind::kTime};
  if (type == "null") return {Kind::kNull};
  return {};
}

bool FitsId(DataType t) { return t.kind != Kind::kReal && t.kind != Kind::kOther; }
bool FitsRaw(DataType t) {
  return !t.list && (t.kind == Kind::kInteger || t.kind == Kind::kReal || t.kind == Kind::kNull);
}
bool FitsLabel(DataType t) { return FitsRaw(t) && t.kind != Kind::kNull; }
bool FitsEventTime(DataType t) {
  return !t.list && (t.kind == Kind::kInteger || t.kind == Kind::kTime);
}
bool FitsGroup(DataType t) { return !t.list && FitsId(t); }

// One column that the plan reads, and what it must be.
struct Need {
  std::string path;  // In the config.
  std::string column;
  bool (*fits)(DataType);
  const char* due;
};

std::vector<Need> NeedsOfPlan(const Plan& plan) {
  std::vector<Need> needs = {{"data.label", plan.features.label(), FitsLabel, "numbers"}};
  if (plan.features.has_event_time()) {
    needs.push_back({"data.event_time", plan.features.event_time(), FitsEventTime,
                     "timestamps, dates or integer seconds"});
  }
  if (plan.features.has_group()) {
    needs.push_back({"data.group", plan.features.group(), FitsGroup, "integers or strings"});
  }
  for (int i = 0; i < plan.job.features_size(); ++i) {
    const FeatureBlock& block = plan.job.features(i);
    for (int k = 0; k < block.id_size(); ++k) {
      needs.push_back({absl::StrCat("features[", i, "].id[", k, "]"), block.id(k), FitsId,
                       "integers, strings, or lists of either"});
    }
    for (int k = 0; k < block.raw_size(); ++k) {
      needs.push_back(
          {absl::StrCat("features[", i, "].raw[", k, "]"), block.raw(k), FitsRaw, "numbers"});
    }
  }
  return needs;
}

}  // namespace

absl::Status CheckSchema(const Plan& plan, const SourceMap& map, const SampleSource& source) {
  std::vector<std::string> names;
  for (const ColumnSchema& column : source.schema()) names.push_back(column.name);
  for (const Need& need : NeedsOfPlan(plan)) {
    const ColumnSchema* found = nullptr;
    for (const ColumnSchema& column : source.schema()) {
      if (column.name == need.column) found = &column;
    }
    if (found == nullptr) {
      return map.Error(need.path, absl::StrCat("the data has no column \"", need.column, "\"",
                                               DidYouMean(need.column, names)));
    }
    if (!need.fits(TypeNamed(found->type))) {
      return map.Error(need.path, absl::StrCat("column \"", need.column, "\" must hold ", need.due,
                                               "; the data has ", found->type));
    }
  }
  return absl::OkStatus();
}

}  // namespace starling
