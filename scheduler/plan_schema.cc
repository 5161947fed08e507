// CheckSchema: do the columns that a plan reads exist in the data, with types that fit?
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "scheduler/data_type.h"
#include "scheduler/plan.h"

namespace starling {
namespace {

// One column that the plan reads, and what it must be.
struct Need {
  std::string path;  // In the config.
  std::string column;
  bool (DataType::*fits)() const;
  const char* due;
};

std::vector<Need> NeedsOfPlan(const Plan& plan) {
  std::vector<Need> needs = {
      {"data.label", plan.features.label(), &DataType::FitsLabel, "numbers"}};
  if (plan.features.has_event_time()) {
    needs.push_back({"data.event_time", plan.features.event_time(), &DataType::FitsEventTime,
                     "timestamps, dates or integer seconds"});
  }
  if (plan.features.has_group()) {
    needs.push_back(
        {"data.group", plan.features.group(), &DataType::FitsGroup, "integers or strings"});
  }
  if (plan.features.has_request()) {
    needs.push_back(
        {"data.request", plan.features.request(), &DataType::FitsGroup, "integers or strings"});
  }
  for (int i = 0; i < plan.features.user_size(); ++i) {
    needs.push_back({absl::StrCat("data.user[", i, "]"), plan.features.user(i), &DataType::IsKnown,
                     "values of a supported type"});
  }
  for (int i = 0; i < plan.job.features_size(); ++i) {
    const FeatureBlock& block = plan.job.features(i);
    for (int k = 0; k < block.id_size(); ++k) {
      needs.push_back({absl::StrCat("features[", i, "].id[", k, "]"), block.id(k),
                       &DataType::FitsId, "integers, strings, or lists of either"});
    }
    for (int k = 0; k < block.raw_size(); ++k) {
      needs.push_back({absl::StrCat("features[", i, "].raw[", k, "]"), block.raw(k),
                       &DataType::FitsRaw, "numbers"});
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
    if (!(DataTypeNamed(found->type).*need.fits)()) {
      return map.Error(need.path, absl::StrCat("column \"", need.column, "\" must hold ", need.due,
                                               "; the data has ", found->type));
    }
  }
  return absl::OkStatus();
}

}  // namespace starling
