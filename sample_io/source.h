// SampleSource: a set of files as a fixed list of splits, and each
// split as columns.
//
// A split is one part of one file (a row group of Parquet, a record batch of
// Arrow IPC, a block of lines of CSV; see sample_file.h), or of a row group too large
// for the budget of memory some of its rows; its ordinal in the list depends on the
// sorted file list and the budget alone. Batches are cut inside a split, so their contents
// and names do not depend on who reads them, or when.
//
// A const object after Open: any number of threads may read splits at once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "sample_io/columns.h"

namespace starling {

struct Split {
  std::string file;
  int row_group = 0;  // Or record batch, or block.
  int64_t rows = 0;
  absl::string_view part_name = "row group";  // What `row_group` counts.
  int64_t begin = 0;                          // Its first row, in the part.
  int64_t part_rows = 0;                      // Of the whole part.
  int64_t bytes = 0;                          // That reading it takes, near enough.

  // "logs/a.parquet: row group 3", to start a message; with its rows if these are not all.
  std::string Place() const;
};

struct ColumnSchema {
  std::string name;
  std::string type;      // As Arrow prints it: "int64", "list<item: string>".
  bool in_list = false;  // A member of a list of structs: a row of the file has several.
};

// What differs between the files in a column, in words for a person.
struct SchemaNote {
  std::string column;
  std::string text;
};

// What was read, and how much the predicate spared.
struct SourceCounts {
  int64_t files_passed_over = 0;     // By their paths' keys: never opened.
  int64_t splits_passed_over = 0;    // Of opened files, by their statistics: never read.
  int64_t splits_without_match = 0;  // Of those read so far: only the predicate's columns were.
  int64_t rows_read = 0, rows_matched = 0;  // So far, by Read.
  // Decoded so far: one for each row of a column that has one value, or list, a row of
  // the file; and one for each element of those in a list of structs.
  int64_t values_read = 0, member_values_read = 0;
};

struct SourceOptions {
  std::string where;          // Rows to read (predicate.h); "": all.
  bool may_be_empty = false;  // No error if the predicate rules out all parts.
  int64_t read_memory = 0;    // Budget in bytes, see data.proto; 0: its default.
};

class SampleSource {
 public:
  // `patterns` as ListFiles takes them (file_list.h). FailedPrecondition (exit
  // 3), naming file or pattern, if there is no file, no row, or a file that is
  // not whole, or if a column has another type in another file (merged_schema.h).
  // InvalidArgument, starting with "where: ", for a predicate that does not fit.
  static absl::StatusOr<std::unique_ptr<SampleSource>> Open(
      const std::vector<std::string>& patterns, const SourceOptions& options = {});
  virtual ~SampleSource() = default;

  virtual const std::vector<Split>& splits() const = 0;
  virtual const std::vector<ColumnSchema>& schema() const = 0;  // Hive keys included, last.
  virtual const std::vector<SchemaNote>& notes() const = 0;     // None if the files are alike.
  // Of all splits. With a predicate, those that match are not known before
  // they are read; splits that cannot hold one are not in the list.
  virtual int64_t rows() const = 0;
  virtual SourceCounts counts() const = 0;
  // A hash of the predicate and the list of splits (file names without directory, row
  // groups, row counts): a position is valid only for the list it was taken from.
  virtual uint64_t fingerprint() const = 0;
  // The budget. A split takes an eighth of it at most, as far as a file can tell.
  virtual int64_t read_memory() const = 0;

  // Reads `columns` of one split, of the rows that match. Errors name file, row group and column.
  virtual absl::StatusOr<ColumnBatch> Read(int split,
                                           const std::vector<std::string>& columns) const = 0;
  // As Read. `spent`, what an earlier call of the same columns gave and nobody
  // needs any more, lends its memory: fresh memory costs as much as decoding.
  virtual absl::StatusOr<ColumnBatch> ReadReusing(int split,
                                                  const std::vector<std::string>& columns,
                                                  ColumnBatch /*spent*/) const {
    return Read(split, columns);
  }
};

}  // namespace starling
