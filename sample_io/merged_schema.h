// MergedSchema: the columns that files of one set share, and what differs.
//
//   order of columns, storage of strings   read alike
//   wider or narrower numbers, other units of time
//                                          read alike, with a note
//   a column that some files lack (added, dropped, renamed)
//                                          cannot be read, with a note
//   another type (integer to string, list to scalar …)
//                                          an error
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sample_io/sample_file.h"
#include "sample_io/source.h"

namespace starling {

struct MergedSchema {
  std::vector<ColumnSchema> columns;  // In the first file's order.
  std::vector<SchemaNote> notes;      // One a column at most.
};

// FailedPrecondition, naming file, column and types, for another type. REQUIRES: files.
absl::StatusOr<MergedSchema> MergeSchemas(const std::vector<const SampleFile*>& files);

}  // namespace starling
