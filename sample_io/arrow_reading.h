// What the readers of all formats share: Arrow's schema as fields, its arrays
// as columns, and the words for damage.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "sample_io/columns.h"
#include "sample_io/sample_file.h"

namespace arrow {
class ChunkedArray;
class DataType;
class RecordBatch;
class Schema;
namespace io {
class RandomAccessFile;
}
}  // namespace arrow

namespace starling {

// FailedPrecondition, naming file and column, if a name stands twice.
absl::StatusOr<std::vector<SampleFile::Field>> FieldsOf(const std::string& path,
                                                        const arrow::Schema& schema);

// Fills `column`, but for its name, from `values`, which must have `rows` rows.
absl::Status ToColumn(const std::shared_ptr<arrow::ChunkedArray>& values, int64_t rows,
                      Column* column);

// Opens a file again, of which `bytes` were there before. `where` starts the message.
absl::StatusOr<std::shared_ptr<arrow::io::RandomAccessFile>> Reopen(const std::string& path,
                                                                    int64_t bytes,
                                                                    absl::string_view where);

// "cannot be read (why); the file is damaged: …"
absl::Status DamagedFile(absl::string_view why);
// "path: what; write the file again …"
absl::Status NotWhole(const std::string& path, absl::string_view what);

// The first bytes of the file, escaped; "" if there are none.
std::string HeadOf(const std::string& path);

// Arrow reports most damage by Status, some by exception. ResultType is an arrow::Result.
template <typename ResultType, typename StatusType, typename Call>
ResultType GuardedCall(const Call& call) {
  try {
    return call();
  } catch (const std::exception& e) {
    return StatusType::IOError(e.what());
  }
}

}  // namespace starling
