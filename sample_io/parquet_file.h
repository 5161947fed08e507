// One Parquet file: its footer, and its row groups as columns. Wraps Arrow's
// reader; no exception and no Arrow type leaves it.
//
// Thread safety: a const object; each Read opens the file anew.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sample_io/columns.h"

namespace starling {

class ParquetFile {
 public:
  struct Field {
    std::string name;
    std::string type;    // As Arrow prints it.
    std::string family;  // Types that read alike: plain, large and dictionary are one.
    bool null = false;   // Of Arrow's type `null`: every value is null.
  };

  // Reads and checks the footer. FailedPrecondition, naming the file, if it
  // cannot be read or is not whole Parquet.
  static absl::StatusOr<std::unique_ptr<ParquetFile>> Open(const std::string& path);
  virtual ~ParquetFile() = default;

  virtual const std::string& path() const = 0;
  virtual const std::vector<Field>& fields() const = 0;
  virtual const std::vector<int64_t>& row_group_rows() const = 0;
  // Bytes the footer takes in memory, near enough; it is kept for Read until dropped.
  virtual int64_t footer_bytes() const = 0;
  virtual void DropFooter() = 0;

  // Columns of one row group, in the order asked; each must be one of fields().
  // FailedPrecondition, naming file, row group and column.
  virtual absl::StatusOr<std::vector<Column>> Read(
      int row_group, const std::vector<std::string>& columns) const = 0;
};

}  // namespace starling
