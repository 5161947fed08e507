#include "sample_io/parquet_flat.h"

#include <arrow/array/builder_primitive.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <gtest/gtest.h>
#include <parquet/column_reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>

#include "sample_io/parquet_test_util.h"

namespace starling {
namespace {

// Row i holds 3 * i; every seventh of them is null if `nulls`.
std::string WriteRows(int64_t rows, bool nulls) {
  arrow::Int64Builder builder;
  for (int64_t i = 0; i < rows; ++i) {
    EXPECT_TRUE((nulls && i % 7 == 0 ? builder.AppendNull() : builder.Append(3 * i)).ok());
  }
  const std::string path = FreshDir() + "/a.parquet";
  WriteParquet(
      path,
      *arrow::Table::Make(arrow::schema({arrow::field("x", arrow::int64())}), {*builder.Finish()}),
      {.row_group_rows = rows});
  return path;
}

Column Read(const std::string& path, int64_t rows) {
  const auto file = parquet::ParquetFileReader::OpenFile(path);
  const auto pages = file->RowGroup(0)->GetColumnPageReader(0);
  const int64_t skipped = 0;
  Column column;
  EXPECT_TRUE(
      ReadFlat(*pages, *file->metadata()->schema()->Column(0), {0, rows, &skipped}, &column).ok());
  return column;
}

TEST(ParquetFlatTest, RowsThatAreOnlyClaimedTakeNoMemory) {
  for (const bool nulls : {false, true}) {
    const Column column = Read(WriteRows(1000, nulls), (int64_t{1} << 31) - 1);
    EXPECT_EQ(column.rows, 1000);
    EXPECT_EQ(column.ints.size(), 1000u);
    EXPECT_LT(column.ints.capacity(), 2u << 20);
    EXPECT_LT(column.valid.capacity(), 2u << 20);
  }
}

TEST(ParquetFlatTest, ManyRowsAreReadWhereverTheFirstNullStands) {
  constexpr int64_t kRows = 2'500'000;
  const Column column = Read(WriteRows(kRows, true), kRows);
  ASSERT_EQ(column.rows, kRows);
  ASSERT_EQ(column.ints.size(), size_t{kRows});
  ASSERT_EQ(column.valid.size(), size_t{kRows});
  int64_t wrong = 0;
  for (int64_t i = 0; i < kRows; ++i) {
    const bool valid = i % 7 != 0;
    wrong += column.valid[i] != valid || (valid && column.ints[i] != 3 * i);
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace starling
