// RowFields: the columns of a data set that are no features: labels, what a
// row counts for, its event time and its group.
//
// Rules. A label must be a number in 0..1, or any number if it is listed so; a
// weight a finite number of 0 or more. Neither is ever null, nor is the event
// time; rows of a null group are one group.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sample_io/batch.h"
#include "sample_io/columns.h"
#include "sample_io/data.pb.h"
#include "sample_io/feature_compiler.h"

namespace starling {

// The columns of Batch::labels, in order.
std::vector<std::string> LabelsOf(const FeatureSet& features);

// Made for one set of columns, which must outlive it.
class RowFields {
 public:
  // Without any field: every row is good, and Fill leaves all vectors empty.
  RowFields() = default;
  // FailedPrecondition, naming the column, if one is absent or of a wrong type.
  static absl::StatusOr<RowFields> Find(const FeatureSet& features, const ColumnBatch& columns);

  // Clears good[i] if row rows[i], whose request is requests[i] unless all are flat,
  // cannot be used.
  void Check(std::span<const int64_t> rows, std::span<const int64_t> requests,
             std::span<uint8_t> good) const;
  // The first fault of a row; none if it has none.
  std::optional<BadRow> WhyBad(int64_t row) const;
  // Replaces the fields of `batch` by those of the rows `kept`.
  void Fill(std::span<const int64_t> kept, Batch* batch) const;

 private:
  struct Label {
    const Column* column;
    bool any_number;
    bool Good(double value) const;
  };

  const ColumnBatch* columns_ = nullptr;
  std::vector<Label> labels_;
  const Column* weight_ = nullptr;  // These are null if there are none.
  const Column* event_time_ = nullptr;
  const Column* group_ = nullptr;
  uint64_t group_seed_ = 0;
};

}  // namespace starling
