// LoadedSplit: one split in memory, its rows in the order of a pass, and how it
// is cut into batches. All of it is a function of the data, the options and the
// pass, never of who loads it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "sample_io/columns.h"
#include "sample_io/data.pb.h"
#include "sample_io/quarantine.h"
#include "sample_io/source.h"

namespace starling {

struct LoadOptions {
  int batch_rows = 0;
  bool shuffle = false;
  uint64_t seed = 0;
  uint32_t pass = 0;
  SampleOptions sample;              // Takes all rows once by default.
  std::vector<std::string> columns;  // To read.
};

// True if `sample` takes every row once.
inline bool TakesAll(const SampleOptions& sample) {
  return sample.rate() == 1 && !sample.replacement() && !sample.has_weight();
}

struct LoadedSplit {
  uint32_t split = 0;    // In the source's list.
  uint32_t batches = 0;  // Some may hold no row.
  // Reordering a column at a time here keeps it in the cache; batches that each
  // picked their rows from all columns would not.
  ColumnBatch columns;
  std::vector<int64_t>
      order;  // By row of `columns`, or request: that before sampling and shuffling.
  std::vector<int64_t> starts;        // First row of each request, and the end; empty: flat.
  std::vector<int64_t> file_starts;   // As `starts`, before the reordering.
  bool nested = false;                // A row of the file is a request.
  std::vector<QuarantinedRow> unfit;  // That could not be sampled.

  // The rows of `columns` that are batch `batch`. Of requests: all rows of
  // those that begin in the batch's share of the file's rows.
  std::pair<int64_t, int64_t> RowsOf(int64_t batch, int64_t batch_rows) const;
  // The row of the split that holds `row`, and that was row `read` when it was read.
  int64_t FileRow(int64_t row) const;
  int64_t PartRow(int64_t read) const {
    return columns.part_rows.empty() ? read : columns.part_rows[read];
  }
  // `row` with its place and values.
  QuarantinedRow Quarantined(const Split& of, int64_t row, std::string column,
                             std::string reason) const;
};

// Reads split->split, groups its rows into requests as `features` ask, takes the
// sample and shuffles. split->columns may be those of an earlier one: their memory is used.
absl::Status LoadSplit(const SampleSource& source, const FeatureSet& features,
                       const LoadOptions& options, LoadedSplit* split);

}  // namespace starling
