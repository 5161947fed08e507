// Quarantine: a Parquet file of the rows that could not be used, each with its
// values as text and the columns _file, _row_group, _row, _column and _reason.
//
// Nothing is on disk before the first row, and nothing under the final name
// before Close. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace starling {

struct QuarantinedRow {
  std::string file;
  int row_group = 0;
  int64_t row = 0;  // In its row group.
  std::string column;
  std::string reason;
  std::vector<std::optional<std::string>> values;  // By column; none: null.
};

class Quarantine {
 public:
  // `columns` name the values of every row. If `path` is taken when the first
  // row comes, by an earlier run, a number is put before its extension.
  static std::unique_ptr<Quarantine> Create(const std::string& path,
                                            const std::vector<std::string>& columns);
  virtual ~Quarantine() = default;

  virtual absl::Status Add(std::vector<QuarantinedRow> rows) = 0;
  // Completes the file, if there is a row. No Add afterwards.
  virtual absl::Status Close() = 0;
  // Where the rows are, or will be.
  virtual const std::string& path() const = 0;
};

}  // namespace starling
