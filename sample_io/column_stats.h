// Statistics of every column of a data set, from one pass over it.
//
// A part of the pass is one block of columns of one split; parts run on all
// threads and are merged in the order of the splits, so every figure is a
// function of the data alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sample_io/columns.h"
#include "sample_io/sketches.h"
#include "sample_io/source.h"

namespace starling {

// What is known of one column. A list column's values are its elements; nulls
// and rows count rows. Numbers that are not finite are counted and enter
// nothing else.
struct ColumnStats {
  std::string name;
  std::string type;  // As SampleSource::schema() has it.
  ColumnType kind = ColumnType::kInt64;
  bool is_unsigned = false;  // Its 64-bit integers are.
  bool is_list = false;

  int64_t rows = 0, nulls = 0;
  int64_t values = 0;  // Neither null, nor NaN, nor infinite.
  int64_t nans = 0, infinities = 0;
  double sum = 0;
  // Of the values; unspecified while there are none.
  double min_double = 0, max_double = 0;
  int64_t min_int = 0, max_int = 0;
  HyperLogLog distinct;
  TopValues top;       // Of integers (the key is the value) and strings (its hash).
  ValueSample sample;  // Of numbers.

  static ColumnStats Of(const ColumnSchema& schema);
  // REQUIRES: the column is of this name; each split is added once.
  void Add(const Column& column, int split);
  void Merge(const ColumnStats& other);

  bool is_number() const { return kind != ColumnType::kString; }
  double null_share() const;
  double mean() const { return sum / static_cast<double>(values); }
  double list_length_mean() const;  // Over rows that are not null.
  // The number of distinct values, and whether it is exact or an estimate.
  int64_t distinct_values() const;
  bool distinct_is_exact() const { return kind != ColumnType::kDouble && top.exact(); }
  // A kept value as text. REQUIRES: kind is not kDouble.
  std::string TextOf(const TopValues::Entry& entry) const;

 private:
  void AddInt(int64_t value, uint64_t priority);
  void AddDouble(double value, uint64_t priority);
};

struct DataStats {
  int64_t files = 0, splits = 0, rows = 0;  // Rows that match the source's predicate.
  SourceCounts counts;  // Of the source, once all was read; some columns' rows several times.
  std::vector<ColumnStats> columns;  // In the order asked for.

  const ColumnStats* Find(absl::string_view name) const;  // Null if there is none.
};

// `columns` empty: all. `threads` 0: one per core. NotFound for a column that
// the data lacks.
absl::StatusOr<DataStats> ReadDataStats(const SampleSource& source,
                                        const std::vector<std::string>& columns, int threads);

}  // namespace starling
