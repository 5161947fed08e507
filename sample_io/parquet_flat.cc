#include "sample_io/parquet_flat.h"

#include <arrow/status.h>
#include <arrow/type.h>
#include <parquet/column_reader.h>
#include <parquet/schema.h>

namespace starling {
namespace {

// Moves the values that are not null, which stand at the front, to their rows,
// from the last on. REQUIRES: there is a null.
template <typename T>
void PlaceNulls(const int16_t* levels, int16_t present, size_t values, size_t rows, T* out,
                uint8_t* valid) {
  for (size_t i = 0; i < rows; ++i) valid[i] = levels[i] == present;
  for (size_t i = rows; i-- > 0;) {
    values -= valid[i];
    out[i] = out[values];  // Of a null: whatever stands there, which is never read.
  }
}

template <typename T>
arrow::Status NoRow(std::vector<T>* values) {
  values->clear();
  return arrow::Status::OK();
}

// Reads into `values`, of the file's type, and sets the column's rows and nulls.
template <typename Type, typename T = typename Type::c_type>
arrow::Status ReadValues(parquet::ColumnReader& reader, const int64_t& skipped, int64_t begin,
                         int64_t rows, std::vector<T>* values, Column* column) {
  static thread_local std::vector<int16_t> levels;
  auto& typed = static_cast<parquet::TypedColumnReader<Type>&>(reader);
  const int16_t present = reader.descr()->max_definition_level();
  if (!typed.HasNext()) return NoRow(values);  // From here on `skipped` is known.
  const int64_t unwanted = begin - skipped;
  if (unwanted > 0 && typed.Skip(unwanted) != unwanted) return NoRow(values);
  if (present > 0 && static_cast<int64_t>(levels.size()) < rows) levels.resize(rows);
  values->resize(rows);
  int64_t found = 0, read = 0;
  while (read < rows && typed.HasNext()) {
    int64_t more = 0;
    const int64_t entries =
        typed.ReadBatch(rows - read, present > 0 ? levels.data() + read : nullptr, nullptr,
                        values->data() + found, &more);
    if (entries <= 0) break;
    read += entries;
    found += more;
  }
  values->resize(read);
  column->rows = read;
  if (present == 0 || found == read) return arrow::Status::OK();
  column->valid.resize(read);
  PlaceNulls(levels.data(), present, found, read, values->data(), column->valid.data());
  return arrow::Status::OK();
}

// As ReadValues, of a type that is narrower than the column's.
template <typename Type, typename Wide>
arrow::Status ReadWidened(parquet::ColumnReader& reader, const int64_t& skipped, int64_t begin,
                          int64_t rows, std::vector<Wide>* values, Column* column) {
  static thread_local std::vector<typename Type::c_type> narrow;
  ARROW_RETURN_NOT_OK(ReadValues<Type>(reader, skipped, begin, rows, &narrow, column));
  values->assign(narrow.begin(), narrow.end());
  return arrow::Status::OK();
}

}  // namespace

bool IsPlainNumber(const arrow::DataType& type, const parquet::ColumnDescriptor& column) {
  switch (type.id()) {
    case arrow::Type::INT64:
      return column.physical_type() == parquet::Type::INT64;
    case arrow::Type::INT32:
      return column.physical_type() == parquet::Type::INT32;
    case arrow::Type::DOUBLE:
      return column.physical_type() == parquet::Type::DOUBLE;
    case arrow::Type::FLOAT:
      return column.physical_type() == parquet::Type::FLOAT;
    default:
      return false;
  }
}

void SetNumbers(bool ints, Column* column) {
  column->type = ints ? ColumnType::kInt64 : ColumnType::kDouble;
  if (ints) {
    column->doubles = {};
  } else {
    column->ints = {};
  }
}

bool IsFlat(const arrow::DataType& type, const parquet::ColumnDescriptor& column) {
  return column.max_repetition_level() == 0 && IsPlainNumber(type, column);
}

arrow::Status ReadFlat(parquet::ColumnReader& reader, const int64_t& skipped, int64_t begin,
                       int64_t rows, Column* column) {
  const parquet::Type::type type = reader.type();
  SetNumbers(type == parquet::Type::INT64 || type == parquet::Type::INT32, column);
  switch (reader.type()) {
    case parquet::Type::INT64:
      return ReadValues<parquet::Int64Type>(reader, skipped, begin, rows, &column->ints, column);
    case parquet::Type::DOUBLE:
      return ReadValues<parquet::DoubleType>(reader, skipped, begin, rows, &column->doubles,
                                             column);
    case parquet::Type::INT32:
      return ReadWidened<parquet::Int32Type>(reader, skipped, begin, rows, &column->ints, column);
    case parquet::Type::FLOAT:
      return ReadWidened<parquet::FloatType>(reader, skipped, begin, rows, &column->doubles,
                                             column);
    default:
      return arrow::Status::TypeError("not a column of plain numbers");
  }
}

}  // namespace starling
