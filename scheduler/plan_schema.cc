// CheckSchema: do the columns that a plan reads exist in the data, with types that fit?
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "scheduler/data_type.h"
#include "scheduler/plan.h"

namespace starling {
namespace {

bool Fits(const DataType& type, ColumnUse use) {
  const bool strings = type.kind == DataType::kString || type.kind == DataType::kNull;
  const bool map = type.kind == DataType::kMap && !type.list;
  const bool times = type.kind == DataType::kInteger || type.kind == DataType::kTime;
  switch (use) {
    case ColumnUse::kIds:
      return type.FitsId();
    case ColumnUse::kStrings:
      return strings;
    case ColumnUse::kWeighted:
      return strings ||
             (map && (type.items == DataType::kInteger || type.items == DataType::kReal));
    case ColumnUse::kNumber:
      return type.FitsRaw();
    case ColumnUse::kNumbers:
      return type.FitsNumbers();
    case ColumnUse::kVector:
      return type.FitsNumbers() && (type.list || type.kind == DataType::kNull);
    case ColumnUse::kIdList:
      return type.FitsId() && (type.list || type.kind == DataType::kNull);
    case ColumnUse::kMap:
      return strings || (map && type.items != DataType::kMap && type.items != DataType::kOther);
    case ColumnUse::kNestedMap:
      return strings || (map && type.items == DataType::kMap);
    case ColumnUse::kTimes:
      return (times && type.list) || type.kind == DataType::kNull;
    case ColumnUse::kTime:
      return type.FitsEventTime();
    case ColumnUse::kLabel:
      return type.FitsLabel();
    case ColumnUse::kGroup:
      return type.FitsGroup();
  }
  return false;
}

const char* Due(ColumnUse use) {
  switch (use) {
    case ColumnUse::kIds:
      return "integers, strings, or lists of either";
    case ColumnUse::kStrings:
      return "strings or lists of strings";
    case ColumnUse::kWeighted:
      return "id:weight strings, lists of these, or maps of ids to numbers";
    case ColumnUse::kNumber:
    case ColumnUse::kLabel:
      return "numbers";
    case ColumnUse::kNumbers:
      return "numbers or lists of numbers";
    case ColumnUse::kVector:
      return "lists of numbers";
    case ColumnUse::kIdList:
      return "lists of integers or strings";
    case ColumnUse::kMap:
      return "maps or key:value strings";
    case ColumnUse::kNestedMap:
      return "maps of maps or pk^sk:v strings";
    case ColumnUse::kTimes:
      return "lists of timestamps, dates or integer seconds";
    case ColumnUse::kTime:
      return "timestamps, dates or integer seconds";
    case ColumnUse::kGroup:
      return "integers or strings";
  }
  return "";
}

}  // namespace

absl::Status CheckSchema(const Plan& plan, const SourceMap& map, const SampleSource& source) {
  std::vector<std::string> names;
  for (const ColumnSchema& column : source.schema()) names.push_back(column.name);
  for (const ColumnNeed& need : plan.needs) {
    const ColumnSchema* found = nullptr;
    for (const ColumnSchema& column : source.schema()) {
      if (column.name == need.column) found = &column;
    }
    if (found == nullptr) {
      for (const SchemaNote& note : source.notes()) {
        if (note.column != need.column) continue;
        return absl::FailedPreconditionError(map.Error(need.path, note.text).message());
      }
      return map.Error(need.path, absl::StrCat("the data has no column \"", need.column, "\"",
                                               DidYouMean(need.column, names)));
    }
    if (!Fits(DataTypeNamed(found->type), need.use)) {
      return map.Error(need.path, absl::StrCat("column \"", need.column, "\" must hold ",
                                               Due(need.use), "; the data has ", found->type));
    }
  }
  return absl::OkStatus();
}

}  // namespace starling
