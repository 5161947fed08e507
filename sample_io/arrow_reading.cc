#include "sample_io/arrow_reading.h"

#include <arrow/buffer.h>
#include <arrow/chunked_array.h>
#include <arrow/io/interfaces.h>
#include <arrow/type.h>

#include "absl/strings/escaping.h"
#include "base/status.h"
#include "sample_io/arrow_columns.h"
#include "sample_io/data_path.h"
#include "sample_io/nested.h"

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
    case arrow::Type::INT8:
    case arrow::Type::INT16:
    case arrow::Type::INT32:
    case arrow::Type::INT64:
    case arrow::Type::UINT8:
    case arrow::Type::UINT16:
    case arrow::Type::UINT32:
      return "integer";  // Not uint64: its upper half reads as negative.
    case arrow::Type::FLOAT:
    case arrow::Type::DOUBLE:
      return "floating point";
    case arrow::Type::DECIMAL128:
    case arrow::Type::DECIMAL256:
      return "decimal";
    case arrow::Type::DATE32:
    case arrow::Type::DATE64:
      return "date";
    case arrow::Type::TIMESTAMP:
      return "timestamp";
    default:
      return type.ToString();
  }
}

// The type without what is one to all readers: how strings and lists are stored.
std::string WidthOf(const arrow::DataType& type) {
  if (type.id() == arrow::Type::DICTIONARY) {
    return WidthOf(*static_cast<const arrow::DictionaryType&>(type).value_type());
  }
  if (type.id() == arrow::Type::LIST || type.id() == arrow::Type::LARGE_LIST) {
    return WidthOf(*static_cast<const arrow::BaseListType&>(type).value_type());
  }
  const bool stored =
      type.id() == arrow::Type::LARGE_STRING || type.id() == arrow::Type::STRING_VIEW ||
      type.id() == arrow::Type::LARGE_BINARY || type.id() == arrow::Type::BINARY_VIEW;
  return stored ? FamilyOf(type) : type.ToString();
}

// Is there a list on the way to the member?
bool InList(const arrow::DataType& top, const std::vector<std::string>& members) {
  const arrow::DataType* at = &top;
  for (const std::string& member : members) {
    const bool list = at->id() != arrow::Type::STRUCT;
    if (list) return true;
    const auto below = static_cast<const arrow::StructType*>(at)->GetFieldByName(member);
    if (below == nullptr) return false;  // Twice: refused later.
    at = below->type().get();
  }
  return false;
}

absl::Status Unsupported(const std::string& type) {
  return absl::FailedPreconditionError(absl::StrCat(
      "its type ", type,
      " is not supported; use integers, floating-point numbers, strings, dates, timestamps or "
      "lists of these"));
}

}  // namespace

absl::StatusOr<std::vector<SampleFile::Field>> FieldsOf(const std::string& path,
                                                        const arrow::Schema& schema) {
  std::vector<SampleFile::Field> fields;
  for (const auto& top : schema.fields()) {
    for (const NestedField& field : ExpandField(*top)) {
      if (FieldNamed(fields, field.name) != nullptr) {
        return absl::FailedPreconditionError(
            absl::StrCat(path, ": column ", field.name, " stands twice in the file; rename one"));
      }
      const arrow::DataType& type = *field.type;
      fields.push_back({field.name, type.ToString(), FamilyOf(type), WidthOf(type),
                        type.id() == arrow::Type::NA, top->name(), field.path,
                        InList(*top->type(), field.path)});
    }
  }
  return fields;
}

const SampleFile::Field* FieldNamed(const std::vector<SampleFile::Field>& fields,
                                    const std::string& name) {
  for (const SampleFile::Field& field : fields) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

absl::Status ToColumn(const std::shared_ptr<arrow::ChunkedArray>& values,
                      const SampleFile::Field& field, int64_t rows, Column* column) {
  absl::Status status = field.members.empty() ? FromArrow(values, column)
                                              : FromArrowMember(values, field.members, column);
  if (absl::IsInvalidArgument(status)) return Unsupported(field.type);
  if (!status.ok()) return DamagedFile(status.message());
  const int64_t found = column->outer_offsets.empty()
                            ? column->rows
                            : static_cast<int64_t>(column->outer_offsets.size()) - 1;
  if (found == rows) return status;
  return DamagedFile(absl::StrCat(found, " values in place of ", rows));
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
