#include "sample_io/row_fields.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/hash.h"
#include "base/status.h"
#include "sample_io/derive.h"
#include "sample_io/slot_values.h"

namespace starling {
namespace {

absl::StatusOr<const Column*> FindField(const ColumnBatch& columns, const std::string& name,
                                        absl::string_view role) {
  if (const Column* column = columns.Find(name)) return column;
  return absl::FailedPreconditionError(
      absl::StrCat("column ", name, " (", role, ") is not in the data"));
}

absl::StatusOr<const Column*> FindNumber(const ColumnBatch& columns, const std::string& name,
                                         absl::string_view role) {
  ASSIGN_OR_RETURN(const Column* column, FindField(columns, name, role));
  if (!column->is_list && column->type != ColumnType::kString) return column;
  return WrongType(*column, role, "a number");
}

// Calls use(i, the number of rows[i]) for all i. REQUIRES: `column` has numbers of all these.
template <typename Use>
void ForEachNumber(const ColumnBatch& columns, const Column& column, std::span<const int64_t> rows,
                   const Use& use) {
  auto each = [&](const auto* values) {
    const uint32_t* requests = column.by_request ? columns.request_of_row.data() : nullptr;
    for (size_t i = 0; i < rows.size(); ++i) {
      const int64_t at = requests == nullptr ? rows[i] : requests[rows[i]];
      use(i, static_cast<double>(values[at]));
    }
  };
  column.type == ColumnType::kInt64 ? each(column.ints.data()) : each(column.doubles.data());
}

bool GoodWeight(double value) { return value >= 0 && std::isfinite(static_cast<float>(value)); }

}  // namespace

std::vector<std::string> LabelsOf(const FeatureSet& features) {
  std::vector<std::string> labels(features.more_labels().begin(), features.more_labels().end());
  if (features.has_label()) labels.insert(labels.begin(), features.label());
  return labels;
}

absl::StatusOr<RowFields> RowFields::Find(const FeatureSet& features, const ColumnBatch& columns) {
  RowFields fields;
  fields.columns_ = &columns;
  for (const std::string& name : LabelsOf(features)) {
    ASSIGN_OR_RETURN(const Column* column, FindNumber(columns, name, "the label"));
    const auto& numbers = features.number_labels();
    const bool any = std::find(numbers.begin(), numbers.end(), name) != numbers.end();
    fields.labels_.push_back({column, any});
  }
  if (features.has_weight()) {
    ASSIGN_OR_RETURN(fields.weight_, FindNumber(columns, features.weight(), "the weight"));
  }
  if (features.has_event_time()) {
    ASSIGN_OR_RETURN(const Column* time,
                     FindField(columns, features.event_time(), "the event time"));
    if (time->is_list || time->type != ColumnType::kInt64) {
      return WrongType(*time, "the event time", "a timestamp or integer seconds");
    }
    fields.event_time_ = time;
  }
  if (features.has_group()) {
    ASSIGN_OR_RETURN(const Column* group, FindField(columns, features.group(), "the group"));
    if (group->is_list || group->type == ColumnType::kDouble) {
      return WrongType(*group, "the group", "an integer or a string");
    }
    fields.group_ = group;
    fields.group_seed_ = VocabularySeed(features.group());
  }
  return fields;
}

bool RowFields::Label::Good(double value) const {
  return any_number ? std::isfinite(static_cast<float>(value)) : value >= 0 && value <= 1;
}

void RowFields::Check(std::span<const int64_t> rows, std::span<const int64_t> requests,
                      std::span<uint8_t> good) const {
  auto check = [&](const Column& column, auto is_good) {
    const std::span<const int64_t> entries = column.by_request ? requests : rows;
    for (size_t i = 0; i < rows.size(); ++i) {
      good[i] &= !column.IsNull(entries[i]) && is_good(entries[i]);
    }
  };
  for (const Label& label : labels_) {
    if (label.column->valid.empty()) {
      ForEachNumber(*columns_, *label.column, rows,
                    [&, label](size_t i, double x) { good[i] &= label.Good(x); });
      continue;
    }
    check(*label.column, [&](int64_t at) { return label.Good(NumberAt(*label.column, at)); });
  }
  if (weight_ != nullptr) {
    check(*weight_, [&](int64_t at) { return GoodWeight(NumberAt(*weight_, at)); });
  }
  if (event_time_ != nullptr && !event_time_->valid.empty()) {
    check(*event_time_, [](int64_t) { return true; });
  }
}

std::optional<BadRow> RowFields::WhyBad(int64_t row) const {
  for (const Label& label : labels_) {
    const int64_t at = columns_->EntryOf(*label.column, row);
    if (label.column->IsNull(at)) return BadRow{row, label.column->name, "the label is null"};
    const double value = NumberAt(*label.column, at);
    if (label.Good(value)) continue;
    return BadRow{row, label.column->name,
                  absl::StrCat("the label is ", value, ", not ",
                               label.any_number ? "a finite 32-bit number" : "in 0..1")};
  }
  if (weight_ != nullptr) {
    const int64_t at = columns_->EntryOf(*weight_, row);
    if (weight_->IsNull(at)) return BadRow{row, weight_->name, "the weight is null"};
    const double value = NumberAt(*weight_, at);
    if (!GoodWeight(value)) {
      return BadRow{row, weight_->name,
                    absl::StrCat("the weight is ", value, ", not a finite number of 0 or more")};
    }
  }
  if (event_time_ != nullptr && event_time_->IsNull(columns_->EntryOf(*event_time_, row))) {
    return BadRow{row, event_time_->name, "the event time is null"};
  }
  return std::nullopt;
}

void RowFields::Fill(std::span<const int64_t> kept, Batch* batch) const {
  batch->labels.clear();
  batch->weights.clear();
  batch->event_times.clear();
  batch->groups.clear();
  batch->event_time_max = 0;
  const size_t width = labels_.size();
  batch->labels.resize(kept.size() * width);
  for (size_t l = 0; l < width; ++l) {
    float* labels = batch->labels.data() + l;
    ForEachNumber(*columns_, *labels_[l].column, kept,
                  [=](size_t i, double x) { labels[i * width] = static_cast<float>(x); });
  }
  if (weight_ != nullptr) {
    batch->weights.resize(kept.size());
    ForEachNumber(*columns_, *weight_, kept, [weights = batch->weights.data()](size_t i, double x) {
      weights[i] = static_cast<float>(x);
    });
  }
  for (int64_t row : kept) {
    if (event_time_ != nullptr) {
      const int64_t time = event_time_->ints[columns_->EntryOf(*event_time_, row)];
      batch->event_times.push_back(time);
      batch->event_time_max = std::max(batch->event_time_max, time);
    }
    if (group_ != nullptr) {
      const int64_t at = columns_->EntryOf(*group_, row);
      batch->groups.push_back(group_->IsNull(at) ? 0 : IdOf(*group_, at, group_seed_));
    }
  }
}

}  // namespace starling
