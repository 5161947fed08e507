#include "sample_io/parquet_test_util.h"

#include <arrow/array.h>
#include <arrow/io/file.h>
#include <arrow/json/from_string.h>
#include <arrow/table.h>
#include <arrow/util/compression.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/test_root.h"

namespace starling {

std::shared_ptr<arrow::Table> MakeTable(const std::vector<TestColumn>& columns) {
  arrow::FieldVector fields;
  arrow::ArrayVector arrays;
  for (const TestColumn& column : columns) {
    fields.push_back(arrow::field(column.name, column.type));
    arrays.push_back(arrow::json::ArrayFromJSONString(column.type, column.json).ValueOrDie());
  }
  return arrow::Table::Make(arrow::schema(fields), arrays);
}

void WriteParquet(const std::string& path, const arrow::Table& table,
                  const TestFileOptions& options) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  auto codec = arrow::util::Codec::GetCompressionType(options.compression).ValueOrDie();
  parquet::WriterProperties::Builder builder;
  builder.compression(codec);
  builder.data_pagesize(options.page_bytes);
  builder.max_row_group_length(options.row_group_rows);  // Else a million at most.
  if (!options.dictionary) builder.disable_dictionary();
  if (options.checksums) builder.enable_page_checksum();
  parquet::ArrowWriterProperties::Builder arrow_builder;
  arrow_builder.store_schema();
  auto file = arrow::io::FileOutputStream::Open(path).ValueOrDie();
  auto status =
      parquet::arrow::WriteTable(table, arrow::default_memory_pool(), file, options.row_group_rows,
                                 builder.build(), arrow_builder.build());
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_TRUE(file->Close().ok());
}

std::string FreshDir() {
  const auto* info = testing::UnitTest::GetInstance()->current_test_info();
  std::string name = std::string(info->test_suite_name()) + "." + info->name();
  for (char& c : name) c = c == '/' ? '_' : c;
  auto path = std::filesystem::path(TestRoot()) / name;
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path.string();
}

void WriteText(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

std::string ReadText(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

}  // namespace starling
