// ScoreWriter: scores on disk, as Parquet or CSV, in the order of the rows.
//
// Columns: `row` (the row's number, from 0), the kept columns of the input,
// the outputs (float32; `probability` unless tasks are named). A NaN score is null. CSV prints a
// score with 9 significant digits, a null as nothing, a list with `|` between its values, and
// quotes what holds a comma, a quote or a line break.
//
// The file appears at its path when it is complete, never before; a writer
// destroyed without Finish leaves nothing. Not thread-safe.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sample_io/columns.h"

namespace starling {

class ScoreWriter {
 public:
  // `path` ends in .parquet or .csv (else InvalidArgument), or is "-": CSV to stdout.
  static absl::StatusOr<std::unique_ptr<ScoreWriter>> Create(
      const std::string& path, const std::vector<std::string>& keep,
      const std::vector<std::string>& outputs);
  virtual ~ScoreWriter() = default;
  // `columns` has the kept columns, of the same types each time, and all rows of
  // `scores` (rows, outputs).
  virtual absl::Status Append(const ColumnBatch& columns, std::span<const float> scores) = 0;
  virtual absl::Status Finish() = 0;  // Durable if ok.
};

}  // namespace starling
