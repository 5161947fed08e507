#include "sample_io/feature_inputs.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace starling {

absl::StatusOr<const Column*> FindColumn(const ColumnBatch& columns, const std::string& name,
                                         absl::string_view role) {
  if (const Column* column = columns.Find(name)) return column;
  return absl::FailedPreconditionError(
      absl::StrCat("column ", name, " (", role, ") is not in the data"));
}

void DerivedColumns::Start(const ColumnBatch& columns, std::span<const int64_t> rows,
                           std::span<const int64_t> requests) {
  columns_ = &columns;
  rows_ = rows;
  derived_.clear();
  faults.Clear();
  asked_requests_ = requests;
  if (places_.size() < rows.size()) {
    const size_t known = places_.size();
    places_.resize(rows.size());
    std::iota(places_.begin() + static_cast<int64_t>(known), places_.end(), known);
  }
  request_of_row_.resize(requests.size());
  requests_.resize(requests.size());
  int64_t last = -1, place = -1;
  for (size_t i = 0; i < requests.size(); ++i) {
    place += requests[i] != last;
    last = requests[i];
    requests_[place] = last;
    request_of_row_[i] = place;
  }
  requests_.resize(place + 1);
}

void DerivedColumns::RequestPlaces(std::span<const int64_t> rows,
                                   std::vector<int64_t>* places) const {
  places->clear();
  if (flat()) return;
  if (rows.size() == rows_.size()) {  // All of them, as in most batches.
    return places->assign(places_.begin(), places_.begin() + std::ssize(requests_));
  }
  for (int64_t row : rows) {
    const int64_t place = request_of_row_[row];
    if (!places->empty() && requests_[places->back()] == requests_[place]) continue;
    places->push_back(place);
  }
}

bool DerivedColumns::AllByRequest(
    const google::protobuf::RepeatedPtrField<DeriveStep>& specs) const {
  for (const DeriveStep& step : specs) {
    for (const std::string& name : step.columns()) {
      const Column* column = columns_->Find(name);
      if (column == nullptr || !column->by_request) return false;
    }
  }
  return !flat();
}

// What is wrong with a request is wrong with each of its rows.
void DerivedColumns::SpreadFaults(const RowFaults& of_requests) {
  for (size_t i = 0; !of_requests.empty() && i < request_of_row_.size(); ++i) {
    if (const RowFaults::Fault* fault = of_requests.Find(request_of_row_[i])) {
      faults.Add(static_cast<int64_t>(i), fault->column, fault->reason);
    }
  }
}

absl::StatusOr<Input> DerivedColumns::Run(
    const std::string& feature, const Steps& steps,
    const google::protobuf::RepeatedPtrField<DeriveStep>& specs) {
  const bool by_request = AllByRequest(specs);
  RowFaults request_faults;
  DeriveInput in;
  in.rows = by_request ? std::ssize(requests_) : std::ssize(rows_);
  for (size_t s = 0; s < steps.size(); ++s) {
    in.columns.clear();
    if (s > 0) in.columns.push_back({&derived_.back().column, {}});
    for (const std::string& name : specs[static_cast<int>(s)].columns()) {
      ASSIGN_OR_RETURN(const Column* column,
                       FindOwn(name, absl::StrCat("read by feature ", feature)));
      const std::span<const int64_t> entries = by_request           ? requests_
                                               : column->by_request ? asked_requests_
                                                                    : rows_;
      in.columns.push_back({column, entries});
    }
    Derived& out = derived_.emplace_back();
    out.column.name = feature;
    out.column.rows = in.rows;
    out.column.by_request = by_request;
    RETURN_IF_ERROR(steps[s]->Derive(in, &out, by_request ? &request_faults : &faults));
  }
  if (by_request) SpreadFaults(request_faults);
  return Input{&derived_.back().column, derived_.back().weights, true};
}

}  // namespace starling
