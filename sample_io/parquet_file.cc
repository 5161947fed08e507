// Parquet: a part is a row group.
#include <arrow/array/array_base.h>
#include <arrow/array/concatenate.h>
#include <arrow/io/interfaces.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/column_reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/properties.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "base/status.h"
#include "sample_io/arrow_reading.h"
#include "sample_io/data_path.h"
#include "sample_io/page_pool.h"
#include "sample_io/parquet_bounds.h"
#include "sample_io/parquet_flat.h"
#include "sample_io/parquet_lists.h"
#include "sample_io/parquet_pages.h"
#include "sample_io/parquet_size.h"
#include "sample_io/sample_file.h"

namespace starling {
namespace {

using Reader = std::unique_ptr<parquet::arrow::FileReader>;
using TableResult = arrow::Result<std::shared_ptr<arrow::Table>>;

// What a range of a row group is decoded in. Bytes of a column that stay in
// memory unread, and rows that are decoded at a time.
constexpr int64_t kStreamBytes = 1 << 20;
constexpr int64_t kStreamRows = 1 << 16;

parquet::ReaderProperties Properties(arrow::MemoryPool* pool = arrow::default_memory_pool()) {
  parquet::ReaderProperties properties(pool);
  properties.set_page_checksum_verification(true);
  return properties;
}

// Strings that all stand in a dictionary stay there, and are not written out.
parquet::ArrowReaderProperties ArrowProperties(const parquet::FileMetaData& footer,
                                               const PartRange& range) {
  parquet::ArrowReaderProperties properties(/*use_threads=*/false);
  properties.set_pre_buffer(false);
  properties.set_batch_size(std::clamp<int64_t>(range.rows, 1, kStreamRows));
  const auto group = footer.RowGroup(range.part);
  for (int c = 0; c < footer.num_columns(); ++c) {
    if (footer.schema()->Column(c)->physical_type() != parquet::Type::BYTE_ARRAY) continue;
    properties.set_read_dictionary(c, AllInDictionary(*group->ColumnChunk(c)));
  }
  return properties;
}

arrow::Result<Reader> OpenReader(const std::shared_ptr<arrow::io::RandomAccessFile>& file) {
  return GuardedCall<arrow::Result<Reader>, arrow::Status>([&]() -> arrow::Result<Reader> {
    parquet::arrow::FileReaderBuilder builder;
    ARROW_RETURN_NOT_OK(builder.Open(file, Properties()));
    return builder.Build();
  });
}

// To read a range. Unless it is `whole`, columns are read through a window
// instead of at once, from the page that holds the range's first row.
arrow::Result<Reader> OpenReader(const std::shared_ptr<arrow::io::RandomAccessFile>& file,
                                 const std::shared_ptr<parquet::FileMetaData>& footer,
                                 const PartRange& range, bool whole, SkippedRows* skipped) {
  return GuardedCall<arrow::Result<Reader>, arrow::Status>([&]() -> arrow::Result<Reader> {
    // Whole chunks are no larger than the file; of a stream all that is allocated is pages.
    parquet::ReaderProperties properties =
        Properties(whole ? arrow::default_memory_pool() : PagePool());
    if (!whole) properties.enable_buffered_stream();
    properties.set_buffer_size(kStreamBytes);
    auto opened = OpenFromRow(file, properties, footer, range.begin, skipped);
    auto arrow_properties = ArrowProperties(*opened->metadata(), range);
    return parquet::arrow::FileReader::Make(arrow::default_memory_pool(), std::move(opened),
                                            arrow_properties);
  });
}

// What the first bytes tell a person about a file that is not whole Parquet.
absl::Status NotParquet(const std::string& path, const arrow::Status& status) {
  const std::string head = HeadOf(path);
  if (head.empty()) return NotWhole(path, "the file is empty, without even a Parquet footer");
  if (!absl::StartsWith(head, "PAR1")) {
    return NotWhole(path, absl::StrCat("not a Parquet file (it starts with \"", head, "\")"));
  }
  return NotWhole(
      path, absl::StrCat("the Parquet file is cut short or damaged (", status.message(), ")"));
}

void Leaves(const parquet::arrow::SchemaField& field, std::vector<int>* leaves) {
  if (field.is_leaf()) leaves->push_back(field.column_index);
  for (const auto& child : field.children) Leaves(child, leaves);
}

// A column without rows, whose vectors keep their memory and the values of numbers, which
// the readers of numbers overwrite or clear: setting them to zero first would cost them twice.
Column Emptied(const std::string& name, Column spent) {
  Column column;
  column.name = name;
  column.ints = std::move(spent.ints);
  column.doubles = std::move(spent.doubles);
  column.valid = std::move(spent.valid);
  column.valid.clear();
  return column;
}

// The leaf of a column of values, or of lists of these; null if it has several or lies deeper.
const parquet::arrow::SchemaField* OneLeaf(const parquet::arrow::SchemaField& field) {
  if (field.is_leaf()) return &field;
  const bool list = field.field->type()->id() != arrow::Type::STRUCT && field.children.size() == 1;
  return list && field.children[0].is_leaf() ? &field.children[0] : nullptr;
}

// The member of a struct, or of a list of structs. REQUIRES: there is one.
const parquet::arrow::SchemaField& Member(const parquet::arrow::SchemaField& field,
                                          const std::string& name) {
  const bool list = field.field->type()->id() != arrow::Type::STRUCT;
  const parquet::arrow::SchemaField& structs = list ? field.children[0] : field;
  for (const auto& child : structs.children) {
    if (child.field->name() == name) return child;
  }
  return field;
}

// A copy, unless these are all rows: a slice would keep the others in memory.
arrow::Result<std::shared_ptr<arrow::RecordBatch>> Rows(
    const std::shared_ptr<arrow::RecordBatch>& batch, int64_t from, int64_t to) {
  if (to - from == batch->num_rows()) return batch;
  arrow::ArrayVector columns;
  for (const auto& column : batch->columns()) {
    ARROW_ASSIGN_OR_RAISE(columns.emplace_back(),
                          arrow::Concatenate({column->Slice(from, to - from)}));
  }
  return arrow::RecordBatch::Make(batch->schema(), to - from, std::move(columns));
}

// Decodes a row group a window at a time and keeps the rows of `range`. `skipped` are
// known to be passed over once the first window was read.
TableResult ReadRange(parquet::arrow::FileReader& reader, const PartRange& range,
                      const std::vector<int>& leaves, const int64_t& skipped) {
  ARROW_ASSIGN_OR_RAISE(auto stream, reader.GetRecordBatchReader({range.part}, leaves));
  arrow::RecordBatchVector kept;
  const int64_t end = range.begin + range.rows;
  for (int64_t at = 0, windows = 0; at < end; ++windows) {
    std::shared_ptr<arrow::RecordBatch> batch;
    ARROW_RETURN_NOT_OK(stream->ReadNext(&batch));
    if (batch == nullptr) break;
    if (windows == 0) at = skipped;
    const int64_t from = std::max<int64_t>(0, range.begin - at);
    const int64_t to = std::min(batch->num_rows(), end - at);
    at += batch->num_rows();
    if (from >= to) continue;
    ARROW_ASSIGN_OR_RAISE(batch, Rows(batch, from, to));
    kept.push_back(std::move(batch));
  }
  return arrow::Table::FromRecordBatches(stream->schema(), kept);
}

class ParquetFile : public SampleFile {
 public:
  explicit ParquetFile(const std::string& path) : path_(path) {}

  absl::Status Init() {
    ASSIGN_OR_RETURN(std::shared_ptr<arrow::io::RandomAccessFile> opened, OpenInput(path_));
    auto reader = OpenReader(opened);
    if (!reader.ok()) return NotParquet(path_, reader.status());
    bytes_ = opened->GetSize().ValueOr(-1);
    footer_ = (*reader)->parquet_reader()->metadata();
    using Counts = arrow::Result<std::vector<int64_t>>;
    auto rows = GuardedCall<Counts, arrow::Status>([this] { return CountRows(); });
    if (!rows.ok()) return NotParquet(path_, rows.status());
    part_rows_ = *std::move(rows);
    auto bytes = GuardedCall<Counts, arrow::Status>([this]() -> Counts {
      std::vector<int64_t> counts;
      for (int i = 0; i < footer_->num_row_groups(); ++i) {
        counts.push_back(ReadBytes(*footer_->RowGroup(i)));
      }
      return counts;
    });
    if (!bytes.ok()) return NotParquet(path_, bytes.status());
    part_bytes_ = *std::move(bytes);
    arrow::FieldVector fields;
    for (const auto& field : (*reader)->manifest().schema_fields) fields.push_back(field.field);
    ASSIGN_OR_RETURN(fields_, FieldsOf(path_, arrow::Schema(fields)));
    return absl::OkStatus();
  }

  const std::string& path() const override { return path_; }
  const std::vector<Field>& fields() const override { return fields_; }
  const std::vector<int64_t>& part_rows() const override { return part_rows_; }
  absl::string_view part_name() const override { return "row group"; }
  const std::vector<int64_t>& part_bytes() const override { return part_bytes_; }
  ValueBounds BoundsOf(int part, const std::string& column) const override {
    using Bounds = arrow::Result<ValueBounds>;
    return GuardedCall<Bounds, arrow::Status>([&]() -> Bounds {
             return ParquetBounds(*footer_, part, FieldNamed(fields_, column));
           })
        .ValueOr(ValueBounds());
  }
  // A parsed footer takes several times its bytes in the file.
  int64_t index_bytes() const override { return footer_ ? 4 * int64_t{footer_->size()} : 0; }
  void DropIndex() override { footer_ = nullptr; }

  absl::StatusOr<std::vector<Column>> Read(const PartRange& range,
                                           const std::vector<std::string>& columns,
                                           std::vector<Column> spent) const override {
    const std::string where = absl::StrCat(path_, ": row group ", range.part);
    ASSIGN_OR_RETURN(auto opened, Reopen(path_, bytes_, where));
    SkippedRows skipped;
    auto reader =
        OpenReader(opened, footer_, range, range.rows == part_rows_[range.part], &skipped);
    if (!reader.ok()) return NotParquet(path_, reader.status());
    RowStarts starts;
    std::vector<Column> out = std::move(spent);
    out.resize(columns.size());
    for (size_t i = 0; i < columns.size(); ++i) {
      out[i] = Emptied(columns[i], std::move(out[i]));
      RETURN_IF_ERROR(Annotate(ReadColumn(**reader, skipped, range, &starts, &out[i]),
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

  absl::Status ReadColumn(parquet::arrow::FileReader& reader, const SkippedRows& skipped,
                          const PartRange& range, RowStarts* starts, Column* column) const {
    const Field* field = FieldNamed(fields_, column->name);
    const parquet::arrow::SchemaField* found = nullptr;
    for (const auto& top : reader.manifest().schema_fields) {
      if (field != nullptr && top.field->name() == field->top) found = &top;
    }
    if (found == nullptr) return absl::FailedPreconditionError("no such column in the file");
    const std::shared_ptr<parquet::FileMetaData> footer = reader.parquet_reader()->metadata();
    for (const std::string& member : field->members) found = &Member(*found, member);
    if (const parquet::arrow::SchemaField* leaf = OneLeaf(*found)) {
      const arrow::DataType& type = *leaf->field->type();
      const parquet::ColumnDescriptor& stored = *footer->schema()->Column(leaf->column_index);
      if (IsFlat(type, stored) || IsInOneList(type, stored)) {
        return ReadNumbers(reader, leaf->column_index, field->in_list, skipped, range, starts,
                           column);
      }
    }
    std::vector<int> leaves;
    Leaves(*found, &leaves);
    TableResult table = GuardedCall<TableResult, arrow::Status>([&]() -> TableResult {
      return range.rows == part_rows_[range.part]
                 ? reader.ReadRowGroup(range.part, leaves)
                 : ReadRange(reader, range, leaves, skipped[leaves[0]]);
    });
    if (!table.ok()) return DamagedFile(table.status().message());
    if ((*table)->num_columns() != 1) return DamagedFile("its parts do not form one column");
    return ToColumn((*table)->column(0), *field, range.rows, column);
  }

  static absl::Status ReadNumbers(parquet::arrow::FileReader& reader, int leaf, bool member,
                                  const SkippedRows& skipped, const PartRange& range,
                                  RowStarts* starts, Column* column) {
    using Rows = arrow::Result<int64_t>;
    Rows rows = GuardedCall<Rows, arrow::Status>([&]() -> Rows {
      const auto group = reader.parquet_reader()->RowGroup(range.part);
      const auto& stored = *group->metadata()->schema()->Column(leaf);
      const auto pages = group->GetColumnPageReader(leaf);
      if (stored.max_repetition_level() > 0) {
        int64_t found = 0;
        ARROW_RETURN_NOT_OK(
            ReadLists(*pages, stored, {range.begin, range.rows, member}, starts, column, &found));
        return found;
      }
      ARROW_RETURN_NOT_OK(
          ReadFlat(*pages, stored, {range.begin, range.rows, &skipped[leaf]}, column));
      return column->rows;
    });
    if (!rows.ok()) return DamagedFile(rows.status().message());
    if (*rows == range.rows) return absl::OkStatus();
    return DamagedFile(absl::StrCat(*rows, " values in place of ", range.rows));
  }

  const std::string path_;
  std::vector<Field> fields_;
  std::vector<int64_t> part_rows_, part_bytes_;
  int64_t bytes_ = 0;
  std::shared_ptr<parquet::FileMetaData> footer_;  // Null once dropped.
};

}  // namespace

absl::StatusOr<std::unique_ptr<SampleFile>> OpenParquetFile(const std::string& path) {
  auto file = std::make_unique<ParquetFile>(path);
  RETURN_IF_ERROR(file->Init());
  return file;
}

}  // namespace starling
