#include "sample_io/quarantine.h"

#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <parquet/arrow/writer.h>
#include <parquet/properties.h>

#include <filesystem>
#include <utility>

#include "base/file.h"
#include "base/status.h"

namespace starling {
namespace {

constexpr size_t kRowsBuffered = 1024;

// Lets Arrow write through base/file.h, where faults are injected and files
// are made durable.
class FileStream : public arrow::io::OutputStream {
 public:
  explicit FileStream(std::unique_ptr<WritableFile> file) : file_(std::move(file)) {}

  arrow::Status Write(const void* data, int64_t bytes) override {
    status_ = file_->Append(absl::string_view(static_cast<const char*>(data), bytes));
    if (!status_.ok()) return arrow::Status::IOError(std::string(status_.message()));
    position_ += bytes;
    return arrow::Status::OK();
  }
  using arrow::io::OutputStream::Write;
  arrow::Result<int64_t> Tell() const override { return position_; }
  arrow::Status Close() override { return arrow::Status::OK(); }
  bool closed() const override { return false; }

  absl::Status Finish() { return status_.ok() ? file_->Close() : status_; }
  const absl::Status& status() const { return status_; }

 private:
  std::unique_ptr<WritableFile> file_;
  absl::Status status_;  // Of the write that failed; Arrow's would lose the code.
  int64_t position_ = 0;
};

class ParquetQuarantine : public Quarantine {
 public:
  ParquetQuarantine(const std::string& path, const std::vector<std::string>& columns)
      : path_(path), columns_(columns) {}

  const std::string& path() const override { return path_; }

  absl::Status Add(std::vector<QuarantinedRow> rows) override {
    for (QuarantinedRow& row : rows) buffered_.push_back(std::move(row));
    return buffered_.size() < kRowsBuffered ? absl::OkStatus() : Flush();
  }

  absl::Status Close() override {
    RETURN_IF_ERROR(Flush());
    if (writer_ == nullptr) return absl::OkStatus();
    RETURN_IF_ERROR(Check(writer_->Close()));
    writer_ = nullptr;
    RETURN_IF_ERROR(stream_->Finish());
    return RenamePath(path_ + ".tmp", path_);
  }

 private:
  absl::Status Check(const arrow::Status& status) const {
    if (status.ok()) return absl::OkStatus();
    if (stream_ != nullptr && !stream_->status().ok()) return stream_->status();
    return absl::InternalError(absl::StrCat(path_, ": ", status.message()));
  }

  absl::Status Start() {
    const std::filesystem::path wanted(path_);
    if (!wanted.parent_path().empty()) RETURN_IF_ERROR(MakeDirs(wanted.parent_path().string()));
    for (int n = 2; PathExists(path_); ++n) {
      path_ = (wanted.parent_path() /
               absl::StrCat(wanted.stem().string(), "-", n, wanted.extension().string()))
                  .string();
    }
    ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, CreateFile(path_ + ".tmp"));
    stream_ = std::make_shared<FileStream>(std::move(file));
    arrow::FieldVector fields;
    for (const std::string& name : columns_) fields.push_back(arrow::field(name, arrow::utf8()));
    fields.push_back(arrow::field("_file", arrow::utf8()));
    fields.push_back(arrow::field("_row_group", arrow::int64()));
    fields.push_back(arrow::field("_row", arrow::int64()));
    fields.push_back(arrow::field("_column", arrow::utf8()));
    fields.push_back(arrow::field("_reason", arrow::utf8()));
    schema_ = arrow::schema(fields);
    auto writer = parquet::arrow::FileWriter::Open(
        *schema_, arrow::default_memory_pool(), stream_,
        parquet::WriterProperties::Builder().compression(parquet::Compression::SNAPPY)->build());
    if (!writer.ok()) return Check(writer.status());
    writer_ = *std::move(writer);
    return absl::OkStatus();
  }

  absl::Status Flush() {
    if (buffered_.empty()) return absl::OkStatus();
    if (writer_ == nullptr) RETURN_IF_ERROR(Start());
    auto batch = MakeBatch();
    if (!batch.ok()) return Check(batch.status());
    buffered_.clear();
    return Check(writer_->WriteRecordBatch(**batch));
  }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> MakeBatch() const {
    std::vector<arrow::StringBuilder> values(columns_.size());
    arrow::StringBuilder file, column, reason;
    arrow::Int64Builder row_group, row;
    for (const QuarantinedRow& bad : buffered_) {
      for (size_t i = 0; i < values.size(); ++i) {
        const auto& value = bad.values[i];
        ARROW_RETURN_NOT_OK(value ? values[i].Append(*value) : values[i].AppendNull());
      }
      ARROW_RETURN_NOT_OK(file.Append(bad.file));
      ARROW_RETURN_NOT_OK(row_group.Append(bad.row_group));
      ARROW_RETURN_NOT_OK(row.Append(bad.row));
      ARROW_RETURN_NOT_OK(column.Append(bad.column));
      ARROW_RETURN_NOT_OK(reason.Append(bad.reason));
    }
    arrow::ArrayVector arrays;
    std::vector<arrow::ArrayBuilder*> builders;
    for (arrow::StringBuilder& builder : values) builders.push_back(&builder);
    for (arrow::ArrayBuilder* builder :
         std::initializer_list<arrow::ArrayBuilder*>{&file, &row_group, &row, &column, &reason}) {
      builders.push_back(builder);
    }
    for (arrow::ArrayBuilder* builder : builders) {
      ARROW_ASSIGN_OR_RAISE(auto array, builder->Finish());
      arrays.push_back(std::move(array));
    }
    return arrow::RecordBatch::Make(schema_, static_cast<int64_t>(buffered_.size()), arrays);
  }

  std::string path_;
  const std::vector<std::string> columns_;
  std::vector<QuarantinedRow> buffered_;
  std::shared_ptr<arrow::Schema> schema_;
  std::shared_ptr<FileStream> stream_;
  std::unique_ptr<parquet::arrow::FileWriter> writer_;
};

}  // namespace

std::unique_ptr<Quarantine> Quarantine::Create(const std::string& path,
                                               const std::vector<std::string>& columns) {
  return std::make_unique<ParquetQuarantine>(path, columns);
}

}  // namespace starling
