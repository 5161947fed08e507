// Parquet files for tests, from columns written as JSON.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace arrow {
class DataType;
class Table;
}  // namespace arrow

namespace starling {

struct TestColumn {
  std::string name;
  std::shared_ptr<arrow::DataType> type;
  std::string json;  // "[1, null, 3]"
};
std::shared_ptr<arrow::Table> MakeTable(const std::vector<TestColumn>& columns);

struct TestFileOptions {
  int64_t row_group_rows = 1 << 20;
  std::string compression = "snappy";
  bool dictionary = true;
  bool checksums = false;
  int64_t page_bytes = 1 << 20;
};
void WriteParquet(const std::string& path, const arrow::Table& table,
                  const TestFileOptions& options = {});

// An empty directory of this process and test.
std::string FreshDir();
void WriteText(const std::string& path, const std::string& text);
std::string ReadText(const std::string& path);

}  // namespace starling
