// SampleFile: one file of samples, whatever its format, as a list of parts
// that can each be read alone. No exception and no Arrow type leaves it.
//
// Thread safety: a const object once opened; each Read opens the file anew.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "sample_io/columns.h"
#include "sample_io/predicate.h"

namespace starling {

// Rows [begin, begin + rows) of one part.
struct PartRange {
  int part = 0;
  int64_t begin = 0;
  int64_t rows = 0;
};

class SampleFile {
 public:
  struct Field {
    std::string name;
    std::string type;    // As Arrow prints it.
    std::string family;  // Types that read alike: plain, large and dictionary are one,
    std::string
        width;  // and so are numbers of any width and times of any unit, told apart by this.
    bool null = false;  // Of Arrow's type `null`: every value is null.
    // A member of a struct: the top column, and the members' names below it.
    std::string top;
    std::vector<std::string> members;
    bool in_list = false;  // One of these is a list of structs.
  };

  // The format follows from the name: .arrow, .feather and .arrows are Arrow
  // IPC, .csv and .tsv (also with .gz) text, all else Parquet. Reads and checks
  // what describes the file. FailedPrecondition, naming it, if it cannot be
  // read or is not whole.
  static absl::StatusOr<std::unique_ptr<SampleFile>> Open(const std::string& path);
  virtual ~SampleFile() = default;

  virtual const std::string& path() const = 0;
  virtual const std::vector<Field>& fields() const = 0;
  // A part is what the format can find without reading what comes before it.
  virtual const std::vector<int64_t>& part_rows() const = 0;
  virtual absl::string_view part_name() const = 0;  // "row group"
  // What reading all columns of a part takes in memory, near enough. Empty: parts
  // are small.
  virtual const std::vector<int64_t>& part_bytes() const {
    static const std::vector<int64_t> none;
    return none;
  }
  // What reading one row of a part takes in memory, near enough, where that is not
  // little: the part is then read whole even if a part of it is asked for.
  virtual int64_t least_bytes(int /*part*/) const { return 0; }
  // What the file itself tells of a column's values; nothing, in most formats.
  // REQUIRES: the index was not dropped.
  virtual ValueBounds BoundsOf(int /*part*/, const std::string& /*column*/) const { return {}; }
  // Bytes of what is kept in memory for Read, near enough, until dropped.
  virtual int64_t index_bytes() const { return 0; }
  virtual void DropIndex() {}

  // Columns of a range, in the order asked; each must be one of fields().
  // FailedPrecondition, naming file, part and column. `spent`, if not empty, are
  // columns whose memory may be used for the new ones, each for that in its place.
  virtual absl::StatusOr<std::vector<Column>> Read(const PartRange& range,
                                                   const std::vector<std::string>& columns,
                                                   std::vector<Column> spent) const = 0;
};

// What a directory is searched for: ".parquet", ".csv.gz" …
bool HasSampleExtension(absl::string_view path);

// The formats. Each reads `path` as what it is named for.
absl::StatusOr<std::unique_ptr<SampleFile>> OpenParquetFile(const std::string& path);
absl::StatusOr<std::unique_ptr<SampleFile>> OpenIpcFile(const std::string& path);
absl::StatusOr<std::unique_ptr<SampleFile>> OpenCsvFile(const std::string& path);

}  // namespace starling
