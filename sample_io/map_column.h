// Maps in logs: Arrow maps, or text. Text becomes a map column first, so that
// `lookup` and `match` know one form only.
#pragma once

#include "sample_io/derive.h"

namespace starling {

// Sees a map column as it is. Strings are parsed into `parsed`: "k:v,k:v", whose
// keys and values are text. A string that is no map is a fault of its row.
absl::StatusOr<ColumnView> AsMap(const ColumnView& view, int64_t rows, absl::string_view separator,
                                 Column* parsed, RowFaults* faults);
// Likewise a map of maps, "pk^sk:v,sk:v|pk^sk:v".
absl::StatusOr<ColumnView> AsNestedMap(const ColumnView& view, int64_t rows, Column* parsed,
                                       RowFaults* faults);

// Where `keys` (of a range) hold the value i of `column`, or -1. An integer and a
// string are equal if the string is the integer's decimal form.
int64_t FindKey(const Column& keys, ValueRange range, const Column& column, int64_t i);

// Gathers what was found for a row, as a number or as ids.
class FoundValues {
 public:
  FoundValues(bool as_id, DeriveStep::Combine combine) : as_id_(as_id), combine_(combine) {}

  // Checks that `values` can be what is asked for, and prepares `out`.
  absl::Status Start(const Column& map, const Column& values, Derived* out) const;
  // One more row, of the values at `found`. As ids, integers become their
  // decimal text, so that an Arrow map and its text give equal ids.
  absl::Status AddRow(const Column& map, const Column& values, std::span<const int64_t> found,
                      int64_t row, Derived* out, RowFaults* faults) const;

 private:
  const bool as_id_;
  const DeriveStep::Combine combine_;
};

}  // namespace starling
