#include "sample_io/arrow_reading.h"

#include <arrow/buffer.h>
#include <arrow/chunked_array.h>
#include <arrow/io/interfaces.h>
#include <arrow/type.h>

#include "absl/strings/escaping.h"
#include "base/status.h"
#include "sample_io/arrow_columns.h"
#include "sample_io/data_path.h"

namespace starling {
namespace {

std::string FamilyOf(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::DICTIONARY:
      return FamilyOf(*static_cast<const arrow::DictionaryType&>(type).value_type());
    case arrow::Type::LARGE_STRING:
    case arrow::Type::STRING_VIEW:
      return "string";
    case arrow::Type::LARGE_BINARY:
    case arrow::Type::BINARY_VIEW:
      return "binary";
    case arrow::Type::LIST:
    case arrow::Type::LARGE_LIST:
      return absl::StrCat("list of ",
                          FamilyOf(*static_cast<const arrow::BaseListType&>(type).value_type()));
    default:
      return type.ToString();
  }
}

absl::Status Unsupported(const arrow::DataType& type) {
  return absl::FailedPreconditionError(absl::StrCat(
      "its type ", type.ToString(),
      " is not supported; use integers, floating-point numbers, strings, dates, timestamps or "
      "lists of these"));
}

}  // namespace

absl::StatusOr<std::vector<SampleFile::Field>> FieldsOf(const std::string& path,
                                                        const arrow::Schema& schema) {
  std::vector<SampleFile::Field> fields;
  for (const auto& field : schema.fields()) {
    for (const SampleFile::Field& other : fields) {
      if (other.name != field->name()) continue;
      return absl::FailedPreconditionError(
          absl::StrCat(path, ": column ", other.name, " stands twice in the file; rename one"));
    }
    const arrow::DataType& type = *field->type();
    fields.push_back(
        {field->name(), type.ToString(), FamilyOf(type), type.id() == arrow::Type::NA});
  }
  return fields;
}

absl::Status ToColumn(const std::shared_ptr<arrow::ChunkedArray>& values, int64_t rows,
                      Column* column) {
  absl::Status status = FromArrow(values, column);
  if (absl::IsInvalidArgument(status)) return Unsupported(*values->type());
  if (!status.ok()) return DamagedFile(status.message());
  if (column->rows == rows) return status;
  return DamagedFile(absl::StrCat(column->rows, " values in place of ", rows));
}

absl::StatusOr<std::shared_ptr<arrow::io::RandomAccessFile>> Reopen(const std::string& path,
                                                                    int64_t bytes,
                                                                    absl::string_view where) {
  auto opened = OpenInput(path);
  if (opened.ok() && (*opened)->GetSize().ValueOr(-1) == bytes) return opened;
  return absl::FailedPreconditionError(absl::StrCat(
      where, ": the file was changed or removed during the run; start again with the new data"));
}

absl::Status DamagedFile(absl::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat("cannot be read (", why,
                   "); the file is damaged: write it again or take it out of the data"));
}

absl::Status NotWhole(const std::string& path, absl::string_view what) {
  return absl::FailedPreconditionError(
      absl::StrCat(path, ": ", what, "; write the file again or take it out of the data"));
}

std::string HeadOf(const std::string& path) {
  auto opened = OpenInput(path);
  if (!opened.ok()) return "";
  auto head = (*opened)->ReadAt(0, 16);
  return head.ok() ? absl::CEscape((*head)->ToString()) : "";
}

}  // namespace starling
