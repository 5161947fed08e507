#include "sample_io/parquet_bounds.h"

#include <parquet/metadata.h>
#include <parquet/schema.h>
#include <parquet/statistics.h>

#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"

namespace starling {
namespace {

int64_t FloorDivide(int64_t a, int64_t b) { return a / b - (a % b < 0); }

// The limits of one column chunk as the values stand in a Column.
class Limits {
 public:
  Limits(const parquet::Statistics& statistics, const parquet::ColumnDescriptor& column,
         ValueBounds* out)
      : statistics_(statistics), column_(column), out_(out) {}

  void Read() {
    switch (statistics_.physical_type()) {
      case parquet::Type::BOOLEAN:
        return Numbers<parquet::BooleanType>();
      case parquet::Type::INT32:
        return Integers<parquet::Int32Type>();
      case parquet::Type::INT64:
        return Integers<parquet::Int64Type>();
      case parquet::Type::FLOAT:
        return Numbers<parquet::FloatType>();
      case parquet::Type::DOUBLE:
        return Numbers<parquet::DoubleType>();
      case parquet::Type::BYTE_ARRAY:
        return Text();
      default:
        return;  // INT96 and decimals of fixed length.
    }
  }

 private:
  template <typename Type>
  void Numbers() {
    const auto& typed = static_cast<const parquet::TypedStatistics<Type>&>(statistics_);
    Set(static_cast<long double>(typed.min()), static_cast<long double>(typed.max()));
  }

  // Integers mean what their logical type says: plain, days, or units of time.
  template <typename Type>
  void Integers() {
    const auto& typed = static_cast<const parquet::TypedStatistics<Type>&>(statistics_);
    const int64_t min = typed.min(), max = typed.max();
    const auto& logical = *column_.logical_type();
    if (logical.is_date()) return Set(min * 86400.0L, max * 86400.0L);
    if (logical.is_timestamp()) {
      const auto unit = static_cast<const parquet::TimestampLogicalType&>(logical).time_unit();
      const int64_t second = unit == parquet::LogicalType::TimeUnit::MILLIS   ? 1'000
                             : unit == parquet::LogicalType::TimeUnit::MICROS ? 1'000'000
                                                                              : 1'000'000'000;
      return Set(FloorDivide(min, second), FloorDivide(max, second));
    }
    if (logical.is_int() && !static_cast<const parquet::IntLogicalType&>(logical).is_signed()) {
      return;  // Their order is another.
    }
    if (logical.is_none() || logical.is_int()) Set(min, max);
  }

  void Text() {
    if (!column_.logical_type()->is_string() && !column_.logical_type()->is_none()) return;
    const auto& typed =
        static_cast<const parquet::TypedStatistics<parquet::ByteArrayType>&>(statistics_);
    auto text = [](const parquet::ByteArray& bytes) {
      return std::string(reinterpret_cast<const char*>(bytes.ptr), bytes.len);
    };
    out_->min_text = text(typed.min());
    out_->max_text = text(typed.max());
    out_->is_text = true;
    out_->known = out_->min_text <= out_->max_text;
  }

  // Limits that are out of order, or no numbers, tell nothing.
  void Set(long double min, long double max) {
    out_->min = min;
    out_->max = max;
    out_->known = min <= max;
  }

  const parquet::Statistics& statistics_;
  const parquet::ColumnDescriptor& column_;
  ValueBounds* const out_;
};

// The leaf of a column that has one value a row; null if it is a list or map.
int LeafOf(const parquet::FileMetaData& footer, const SampleFile::Field& field) {
  std::string path = field.top;
  for (const std::string& member : field.members) absl::StrAppend(&path, ".", member);
  const int leaf = footer.schema()->ColumnIndex(path);
  if (leaf < 0 || footer.schema()->Column(leaf)->max_repetition_level() > 0) return -1;
  return leaf;
}

}  // namespace

ValueBounds ParquetBounds(const parquet::FileMetaData& footer, int row_group,
                          const SampleFile::Field* field) {
  ValueBounds bounds;
  const int leaf = field == nullptr ? -1 : LeafOf(footer, *field);
  if (leaf < 0) return bounds;
  const auto group = footer.RowGroup(row_group);
  const auto chunk = group->ColumnChunk(leaf);
  const parquet::ColumnDescriptor& column = *footer.schema()->Column(leaf);
  bounds.nans_possible = column.physical_type() == parquet::Type::FLOAT ||
                         column.physical_type() == parquet::Type::DOUBLE ||
                         column.physical_type() == parquet::Type::FIXED_LEN_BYTE_ARRAY;
  bounds.nulls_possible = column.max_definition_level() > 0;
  if (!chunk->is_stats_set()) return bounds;
  const auto statistics = chunk->statistics();
  if (statistics == nullptr) return bounds;
  if (statistics->HasNullCount() && statistics->null_count() == 0) bounds.nulls_possible = false;
  if (statistics->HasNullCount() && statistics->null_count() == group->num_rows()) {
    bounds.values_possible = false;
  }
  if (statistics->HasMinMax()) Limits(*statistics, column, &bounds).Read();
  return bounds;
}

}  // namespace starling
