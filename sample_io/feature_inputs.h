// The column that a feature is made from: one of the data, or the result of the
// feature's steps (derive.h), run over the rows of one batch. The first part of
// the FeatureCompiler's work.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sample_io/columns.h"
#include "sample_io/data.pb.h"
#include "sample_io/derive.h"

namespace starling {

struct Input {
  const Column* column = nullptr;
  std::span<const float> weights;  // One a value; empty: all 1.
  bool derived = false;            // For this batch: its entries are those of DerivedColumns.
};

// The steps of one feature, ready to run; none if its column is used as it stands.
using Steps = std::vector<std::unique_ptr<Derivation>>;

// FailedPrecondition, naming the column, if there is none.
absl::StatusOr<const Column*> FindColumn(const ColumnBatch& columns, const std::string& name,
                                         absl::string_view role);

// The derived columns of one batch. A column that comes from requests' columns
// alone is by_request, with an entry for each request asked for, so that a user's
// sequence is cut and hashed once; any other has an entry for each row asked for.
class DerivedColumns {
 public:
  // The next batch. The arguments outlive its use. `requests` are those of the
  // rows (RequestsOf).
  void Start(const ColumnBatch& columns, std::span<const int64_t> rows,
             std::span<const int64_t> requests);
  // The entry that each row asked for has in a derived column.
  std::span<const int64_t> EntriesOf(const Column& column) const {
    return column.by_request ? std::span(request_of_row_) : places();
  }
  // The requests asked for, each once, as entries of such a column, …
  std::span<const int64_t> RequestsIn(const Input& input) const {
    return input.derived ? std::span(places_).first(requests_.size()) : std::span(requests_);
  }
  // … and for each row asked for the place of its request among these.
  std::span<const int64_t> request_of_row() const { return request_of_row_; }
  // 0, 1, … for the rows asked for.
  std::span<const int64_t> places() const { return std::span(places_).first(rows_.size()); }
  // Places of the requests that have any of the rows asked for at `rows`, ascending.
  void RequestPlaces(std::span<const int64_t> rows, std::vector<int64_t>* places) const;

  absl::StatusOr<Input> Run(const std::string& feature, const Steps& steps,
                            const google::protobuf::RepeatedPtrField<DeriveStep>& specs);
  absl::StatusOr<const Column*> FindOwn(const std::string& name, absl::string_view role) const {
    return FindColumn(*columns_, name, role);
  }

  RowFaults faults;  // By row asked for.

 private:
  bool flat() const { return columns_->flat(); }
  bool AllByRequest(const google::protobuf::RepeatedPtrField<DeriveStep>& specs) const;
  void SpreadFaults(const RowFaults& of_requests);

  const ColumnBatch* columns_ = nullptr;
  std::span<const int64_t> rows_;
  std::span<const int64_t> asked_requests_;  // By row asked for: its request in the data,
  std::vector<int64_t> request_of_row_;      // and the place of that in …
  std::vector<int64_t> requests_;            // … the requests asked for, each once.
  std::vector<int64_t> places_;              // 0, 1, … for as many rows as ever were.
  std::deque<Derived> derived_;              // Their addresses stay.
};

// The column of a feature: found, or derived.
template <typename Feature>
absl::StatusOr<Input> FindInput(const Feature& feature, const Steps& steps, absl::string_view role,
                                DerivedColumns* derived) {
  if (!steps.empty()) return derived->Run(feature.name(), steps, feature.steps());
  absl::StatusOr<const Column*> column = derived->FindOwn(feature.name(), role);
  if (!column.ok()) return column.status();
  return Input{.column = *column};
}

}  // namespace starling
