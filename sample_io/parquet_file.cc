#include "sample_io/parquet_file.h"

#include <arrow/io/file.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/properties.h>

#include <exception>
#include <fstream>
#include <functional>
#include <limits>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "base/status.h"
#include "sample_io/arrow_columns.h"

namespace starling {
namespace {

using Reader = std::unique_ptr<parquet::arrow::FileReader>;

// Arrow reports most damage by Status, some by exception.
template <typename T>
arrow::Result<T> Guarded(const std::function<arrow::Result<T>()>& call) {
  try {
    return call();
  } catch (const std::exception& e) {
    return arrow::Status::IOError(e.what());
  }
}

arrow::Result<Reader> OpenReader(const std::shared_ptr<arrow::io::RandomAccessFile>& file,
                                 const std::shared_ptr<parquet::FileMetaData>& footer) {
  return Guarded<Reader>([&]() -> arrow::Result<Reader> {
    parquet::ReaderProperties properties = parquet::default_reader_properties();
    properties.set_page_checksum_verification(true);
    parquet::arrow::FileReaderBuilder builder;
    ARROW_RETURN_NOT_OK(builder.Open(file, properties, footer));
    parquet::ArrowReaderProperties arrow_properties(/*use_threads=*/false);
    arrow_properties.set_pre_buffer(false);
    builder.properties(arrow_properties);
    return builder.Build();
  });
}

// What the first bytes tell a person about a file that is not whole Parquet.
absl::Status NotParquet(const std::string& path, const arrow::Status& status) {
  std::string head(16, '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(in.gcount()));
  std::string what;
  if (head.empty()) {
    what = "the file is empty, without even a Parquet footer";
  } else if (!absl::StartsWith(head, "PAR1")) {
    what = absl::StrCat("not a Parquet file (it starts with \"", absl::CEscape(head), "\")");
  } else {
    what = absl::StrCat("the Parquet file is cut short or damaged (", status.message(), ")");
  }
  return absl::FailedPreconditionError(
      absl::StrCat(path, ": ", what, "; write the file again or take it out of the data"));
}

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

void Leaves(const parquet::arrow::SchemaField& field, std::vector<int>* leaves) {
  if (field.is_leaf()) leaves->push_back(field.column_index);
  for (const auto& child : field.children) Leaves(child, leaves);
}

class ParquetFileImpl : public ParquetFile {
 public:
  explicit ParquetFileImpl(const std::string& path) : path_(path) {}

  absl::Status Init() {
    auto opened = arrow::io::ReadableFile::Open(path_);
    if (!opened.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat(path_, ": cannot be opened (", opened.status().message(), ")"));
    }
    auto reader = OpenReader(*opened, nullptr);
    if (!reader.ok()) return NotParquet(path_, reader.status());
    bytes_ = (*opened)->GetSize().ValueOr(-1);
    footer_ = (*reader)->parquet_reader()->metadata();
    auto rows = Guarded<std::vector<int64_t>>([this] { return CountRows(); });
    if (!rows.ok()) return NotParquet(path_, rows.status());
    row_group_rows_ = *std::move(rows);
    return TakeFields(**reader);
  }

  const std::string& path() const override { return path_; }
  const std::vector<Field>& fields() const override { return fields_; }
  const std::vector<int64_t>& row_group_rows() const override { return row_group_rows_; }
  // A parsed footer takes several times its bytes in the file.
  int64_t footer_bytes() const override { return footer_ ? 4 * int64_t{footer_->size()} : 0; }
  void DropFooter() override { footer_ = nullptr; }

  absl::StatusOr<std::vector<Column>> Read(int row_group,
                                           const std::vector<std::string>& columns) const override {
    const std::string where = absl::StrCat(path_, ": row group ", row_group);
    auto opened = arrow::io::ReadableFile::Open(path_);
    if (!opened.ok() || (*opened)->GetSize().ValueOr(-1) != bytes_) {
      return absl::FailedPreconditionError(absl::StrCat(
          where,
          ": the file was changed or removed during the run; start again with the new data"));
    }
    auto reader = OpenReader(*opened, footer_);
    if (!reader.ok()) return NotParquet(path_, reader.status());
    std::vector<Column> out(columns.size());
    for (size_t i = 0; i < columns.size(); ++i) {
      out[i].name = columns[i];
      RETURN_IF_ERROR(Annotate(ReadColumn(**reader, row_group, &out[i]),
                               absl::StrCat(where, ": column ", columns[i])));
    }
    return out;
  }

 private:
  // The footer has no checksum, but it counts rows thrice: a file whose counts
  // differ is refused, rather than read in part.
  arrow::Result<std::vector<int64_t>> CountRows() const {
    std::vector<int64_t> counts;
    int64_t sum = 0;
    for (int i = 0; i < footer_->num_row_groups(); ++i) {
      const auto group = footer_->RowGroup(i);
      const int64_t rows = group->num_rows();
      if (rows < 0 || rows > std::numeric_limits<int32_t>::max() ||
          group->num_columns() != footer_->num_columns()) {
        return arrow::Status::Invalid("row group ", i, " of ", rows, " rows and ",
                                      group->num_columns(), " columns");
      }
      for (int c = 0; c < group->num_columns(); ++c) {
        const int64_t values = group->ColumnChunk(c)->num_values();
        const parquet::ColumnDescriptor& column = *footer_->schema()->Column(c);
        if (values == rows || (column.max_repetition_level() > 0 && values > rows)) continue;
        return arrow::Status::Invalid("row group ", i, " of ", rows, " rows, but ", values,
                                      " values of column ", column.name());
      }
      counts.push_back(rows);
      sum += rows;
    }
    if (sum == footer_->num_rows()) return counts;
    return arrow::Status::Invalid(footer_->num_rows(), " rows, but ", sum, " in its row groups");
  }

  absl::Status TakeFields(parquet::arrow::FileReader& reader) {
    for (const parquet::arrow::SchemaField& field : reader.manifest().schema_fields) {
      const arrow::DataType& type = *field.field->type();
      for (const Field& other : fields_) {
        if (other.name != field.field->name()) continue;
        return absl::FailedPreconditionError(
            absl::StrCat(path_, ": column ", other.name, " stands twice in the file; rename one"));
      }
      fields_.push_back(
          {field.field->name(), type.ToString(), FamilyOf(type), type.id() == arrow::Type::NA});
    }
    return absl::OkStatus();
  }

  absl::Status ReadColumn(parquet::arrow::FileReader& reader, int row_group, Column* column) const {
    const parquet::arrow::SchemaField* found = nullptr;
    for (const auto& field : reader.manifest().schema_fields) {
      if (field.field->name() == column->name) found = &field;
    }
    if (found == nullptr) return absl::FailedPreconditionError("no such column in the file");
    std::vector<int> leaves;
    Leaves(*found, &leaves);
    auto table = Guarded<std::shared_ptr<arrow::Table>>(
        [&] { return reader.ReadRowGroup(row_group, leaves); });
    if (!table.ok()) return Damaged(table.status().message());
    if ((*table)->num_columns() != 1) return Damaged("its parts do not form one column");
    absl::Status status = FromArrow((*table)->column(0), column);
    if (absl::IsInvalidArgument(status)) return Unsupported(*found->field->type());
    if (!status.ok()) return Damaged(status.message());
    if (column->rows == row_group_rows_[row_group]) return status;
    return Damaged(absl::StrCat(column->rows, " values in place of ", row_group_rows_[row_group]));
  }

  static absl::Status Damaged(absl::string_view why) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot be read (", why,
                     "); the file is damaged: write it again or take it out of the data"));
  }
  static absl::Status Unsupported(const arrow::DataType& type) {
    return absl::FailedPreconditionError(absl::StrCat(
        "its type ", type.ToString(),
        " is not supported; use integers, floating-point numbers, strings, dates, timestamps or "
        "lists of these"));
  }

  const std::string path_;
  std::vector<Field> fields_;
  std::vector<int64_t> row_group_rows_;
  int64_t bytes_ = 0;
  std::shared_ptr<parquet::FileMetaData> footer_;  // Null once dropped.
};

}  // namespace

absl::StatusOr<std::unique_ptr<ParquetFile>> ParquetFile::Open(const std::string& path) {
  auto file = std::make_unique<ParquetFileImpl>(path);
  RETURN_IF_ERROR(file->Init());
  return file;
}

}  // namespace starling
