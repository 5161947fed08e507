// FeatureCompiler: columns → Batch. The one place where a value becomes an id
// or a number, used by training, `predict` and the serving node, so that the
// same row gives the same features everywhere.
//
// Rules. `id`: the column must hold integers or strings, or lists of these; a
// null or an empty list has no id, and pools to zeros. `raw`: the column must
// hold numbers; a null takes the feature's `missing`; NaN and infinity are bad
// values. A label must be a number in 0..1, or any number if it is listed so, and
// is never null; nor is a row's weight, a finite number of 0 or more.
//
// A const object: any number of threads may compile at once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sample_io/batch.h"
#include "sample_io/columns.h"
#include "sample_io/data.pb.h"

namespace starling {

// A row that cannot be used, and why: goes to quarantine, or back to a client.
struct BadRow {
  int64_t row;  // In the ColumnBatch.
  std::string column;
  std::string reason;
};

// The columns that `features` are made from, each once: id features, raw
// features, then, with labels, the labels, event time, group, request and weight.
std::vector<std::string> ColumnsOf(const FeatureSet& features, bool with_labels);

class FeatureCompiler {
 public:
  static absl::StatusOr<std::unique_ptr<FeatureCompiler>> Create(const FeatureSet& features);
  virtual ~FeatureCompiler() = default;

  virtual const FeatureSet& features() const = 0;
  // Columns the compiler reads: ColumnsOf(features(), true).
  virtual std::vector<std::string> Columns() const = 0;

  // Compiles the rows of `columns` listed in `rows` (all, in order, if empty),
  // less the bad ones, which are appended to `bad`. FailedPrecondition, naming
  // the column, if a column is absent or of a type that no row could satisfy.
  // Without `with_labels` neither label, event time, group nor weight is needed. All of
  // `batch` but its name is replaced; its vectors are reused. `bad` gets its rows
  // in the order of `rows`, each once, with the first column at fault.
  virtual absl::Status Compile(const ColumnBatch& columns, std::span<const int64_t> rows,
                               bool with_labels, Batch* batch, std::vector<BadRow>* bad) const = 0;
};

}  // namespace starling
