#include "sample_io/parquet_pages.h"

#include <parquet/column_reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/properties.h>
#include <parquet/schema.h>

#include <utility>

namespace starling {
namespace {

class GroupFromRow : public parquet::RowGroupReader::Contents {
 public:
  GroupFromRow(std::shared_ptr<parquet::RowGroupReader> group,
               const parquet::ReaderProperties* properties, int64_t begin, SkippedRows* skipped)
      : group_(std::move(group)), properties_(properties), begin_(begin), skipped_(skipped) {}

  std::unique_ptr<parquet::PageReader> GetColumnPageReader(int i) override {
    std::unique_ptr<parquet::PageReader> pages = group_->GetColumnPageReader(i);
    const bool list = group_->metadata()->schema()->Column(i)->max_repetition_level() > 0;
    pages->set_data_page_filter(
        [begin = begin_, skipped = &(*skipped_)[i], found = list](const auto& page) mutable {
          if (page.num_values == 0) return true;  // Column readers take it for the end.
          found = found || *skipped + page.num_values > begin;
          if (!found) *skipped += page.num_values;
          return !found;
        });
    return pages;
  }
  const parquet::RowGroupMetaData* metadata() const override { return group_->metadata(); }
  const parquet::ReaderProperties* properties() const override { return properties_; }

 private:
  const std::shared_ptr<parquet::RowGroupReader> group_;
  const parquet::ReaderProperties* const properties_;
  const int64_t begin_;
  SkippedRows* const skipped_;
};

class FileFromRow : public parquet::ParquetFileReader::Contents {
 public:
  FileFromRow(std::unique_ptr<parquet::ParquetFileReader> file,
              const parquet::ReaderProperties& properties, int64_t begin, SkippedRows* skipped)
      : file_(std::move(file)), properties_(properties), begin_(begin), skipped_(skipped) {
    skipped_->assign(metadata()->num_columns(), 0);
  }

  void Close() override { file_->Close(); }
  std::shared_ptr<parquet::RowGroupReader> GetRowGroup(int i) override {
    return std::make_shared<parquet::RowGroupReader>(
        std::make_unique<GroupFromRow>(file_->RowGroup(i), &properties_, begin_, skipped_));
  }
  std::shared_ptr<parquet::FileMetaData> metadata() const override { return file_->metadata(); }
  std::shared_ptr<parquet::PageIndexReader> GetPageIndexReader() override {
    return file_->GetPageIndexReader();
  }
  parquet::BloomFilterReader& GetBloomFilterReader() override {
    return file_->GetBloomFilterReader();
  }

 private:
  const std::unique_ptr<parquet::ParquetFileReader> file_;
  const parquet::ReaderProperties properties_;
  const int64_t begin_;
  SkippedRows* const skipped_;
};

}  // namespace

std::unique_ptr<parquet::ParquetFileReader> OpenFromRow(
    std::shared_ptr<arrow::io::RandomAccessFile> file, const parquet::ReaderProperties& properties,
    std::shared_ptr<parquet::FileMetaData> footer, int64_t begin, SkippedRows* skipped) {
  auto reader = std::make_unique<parquet::ParquetFileReader>();
  reader->Open(std::make_unique<FileFromRow>(
      parquet::ParquetFileReader::Open(std::move(file), properties, std::move(footer)), properties,
      begin, skipped));
  return reader;
}

}  // namespace starling
