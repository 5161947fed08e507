#include "serving/score_writer.h"

#include <arrow/array/array_nested.h>
#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_nested.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/io/interfaces.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <parquet/arrow/writer.h>
#include <parquet/properties.h>
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/status.h"

namespace starling {
namespace {

// A file under a temporary name until it is complete.
class PendingFile {
 public:
  explicit PendingFile(const std::string& path)
      : path_(path), temporary_(absl::StrCat(path, ".tmp", ::getpid())) {}
  ~PendingFile() {
    if (file_ == nullptr) return;
    file_ = nullptr;
    RemoveAll(temporary_).IgnoreError();
  }
  absl::Status Open() {
    ASSIGN_OR_RETURN(file_, CreateFile(temporary_));
    return absl::OkStatus();
  }
  absl::Status Append(absl::string_view bytes) { return file_->Append(bytes); }
  absl::Status Finish() {
    RETURN_IF_ERROR(file_->Close());
    RETURN_IF_ERROR(RenamePath(temporary_, path_));
    file_ = nullptr;
    return absl::OkStatus();
  }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  const std::string temporary_;
  std::unique_ptr<WritableFile> file_;
};

void AppendCsvString(absl::string_view value, std::string* out) {
  if (!value.empty() && value.find_first_of(",\"\r\n") == absl::string_view::npos) {
    absl::StrAppend(out, value);
    return;
  }
  *out += '"';
  for (char c : value) {
    if (c == '"') *out += '"';
    *out += c;
  }
  *out += '"';
}

std::string ElementText(const Column& column, size_t i) {
  if (column.type == ColumnType::kInt64) return absl::StrCat(column.ints[i]);
  if (column.type == ColumnType::kDouble) {
    char digits[32];
    return std::string(digits,
                       std::to_chars(digits, digits + sizeof(digits), column.doubles[i]).ptr);
  }
  return std::string(column.strings[i]);
}

void AppendCsvCell(const Column& column, int64_t row, std::string* out) {
  if (column.IsNull(row)) return;
  if (!column.is_list) {
    if (column.type != ColumnType::kString) {
      *out += ElementText(column, row);
    } else {
      AppendCsvString(column.strings[row], out);
    }
    return;
  }
  std::string joined;
  for (int32_t i = column.list_offsets[row]; i < column.list_offsets[row + 1]; ++i) {
    if (i > column.list_offsets[row]) joined += '|';
    joined += ElementText(column, i);
  }
  AppendCsvString(joined, out);
}

class CsvWriter : public ScoreWriter {
 public:
  // Without a file: to stdout.
  CsvWriter(std::unique_ptr<PendingFile> file, const std::vector<std::string>& keep,
            const std::vector<std::string>& outputs)
      : file_(std::move(file)), keep_(keep), outputs_(outputs) {}

  absl::Status Start() {
    if (file_ != nullptr) RETURN_IF_ERROR(file_->Open());
    std::string header = "row";
    for (const std::vector<std::string>& names : {keep_, outputs_}) {
      for (const std::string& name : names) {
        header += ',';
        AppendCsvString(name, &header);
      }
    }
    return Write(header + "\n");
  }

  absl::Status Append(const ColumnBatch& columns, std::span<const float> scores) override {
    std::string text;
    for (size_t i = 0; i < scores.size() / outputs_.size(); ++i) {
      absl::StrAppend(&text, rows_++);
      for (const std::string& name : keep_) {
        text += ',';
        AppendCsvCell(*columns.Find(name), static_cast<int64_t>(i), &text);
      }
      for (float score : scores.subspan(i * outputs_.size(), outputs_.size())) {
        text += ',';
        if (!std::isnan(score)) absl::StrAppendFormat(&text, "%.9g", score);
      }
      text += '\n';
    }
    return Write(text);
  }

  absl::Status Finish() override {
    if (file_ != nullptr) return file_->Finish();
    return std::fflush(stdout) == 0 ? absl::OkStatus() : StdoutFailed();
  }

 private:
  static absl::Status StdoutFailed() {
    return absl::ResourceExhaustedError("writing to stdout failed");
  }
  absl::Status Write(const std::string& text) {
    if (file_ != nullptr) return file_->Append(text);
    return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() ? absl::OkStatus()
                                                                           : StdoutFailed();
  }

  const std::unique_ptr<PendingFile> file_;
  const std::vector<std::string> keep_, outputs_;
  int64_t rows_ = 0;
};

// Lets Arrow write to a PendingFile.
class PendingStream : public arrow::io::OutputStream {
 public:
  explicit PendingStream(PendingFile* file) : file_(file) {}
  arrow::Status Write(const void* data, int64_t bytes) override {
    status_.Update(file_->Append({static_cast<const char*>(data), static_cast<size_t>(bytes)}));
    if (!status_.ok()) return arrow::Status::IOError(std::string(status_.message()));
    position_ += bytes;
    return arrow::Status::OK();
  }
  using arrow::io::OutputStream::Write;
  arrow::Result<int64_t> Tell() const override { return position_; }
  arrow::Status Close() override { return arrow::Status::OK(); }
  bool closed() const override { return false; }
  const absl::Status& status() const { return status_; }

 private:
  PendingFile* const file_;
  absl::Status status_;  // Arrow's own would lose the code.
  int64_t position_ = 0;
};

using ArrayResult = arrow::Result<std::shared_ptr<arrow::Array>>;

// The values of a column, or the values of all its lists.
ArrayResult ValuesArray(const Column& column, const uint8_t* valid) {
  if (column.type == ColumnType::kInt64) {
    arrow::Int64Builder builder;
    ARROW_RETURN_NOT_OK(builder.AppendValues(column.ints.data(), column.ints.size(), valid));
    return builder.Finish();
  }
  if (column.type == ColumnType::kDouble) {
    arrow::DoubleBuilder builder;
    ARROW_RETURN_NOT_OK(builder.AppendValues(column.doubles.data(), column.doubles.size(), valid));
    return builder.Finish();
  }
  arrow::LargeStringBuilder builder;
  for (size_t i = 0; i < column.strings.size(); ++i) {
    bool null = valid != nullptr && !valid[i];
    ARROW_RETURN_NOT_OK(null ? builder.AppendNull()
                             : builder.Append(column.strings[i].data(), column.strings[i].size()));
  }
  return builder.Finish();
}

ArrayResult ColumnArray(const Column& column) {
  if (!column.is_list) {
    return ValuesArray(column, column.valid.empty() ? nullptr : column.valid.data());
  }
  ARROW_ASSIGN_OR_RAISE(auto values, ValuesArray(column, nullptr));
  // An offset that is null makes its list null.
  arrow::Int32Builder offsets;
  for (int64_t i = 0; i <= column.rows; ++i) {
    bool null = i < column.rows && column.IsNull(i);
    ARROW_RETURN_NOT_OK(null ? offsets.AppendNull() : offsets.Append(column.list_offsets[i]));
  }
  ARROW_ASSIGN_OR_RAISE(auto offsets_array, offsets.Finish());
  return arrow::ListArray::FromArrays(*offsets_array, *values);
}

// Column t of scores (rows, outputs).
ArrayResult OutputArray(std::span<const float> scores, size_t t, size_t outputs) {
  arrow::FloatBuilder builder;
  for (size_t i = t; i < scores.size(); i += outputs) {
    ARROW_RETURN_NOT_OK(std::isnan(scores[i]) ? builder.AppendNull() : builder.Append(scores[i]));
  }
  return builder.Finish();
}

class ParquetWriter : public ScoreWriter {
 public:
  ParquetWriter(const std::string& path, const std::vector<std::string>& keep,
                const std::vector<std::string>& outputs)
      : file_(path),
        stream_(std::make_shared<PendingStream>(&file_)),
        keep_(keep),
        outputs_(outputs) {}

  absl::Status Start() { return file_.Open(); }

  absl::Status Append(const ColumnBatch& columns, std::span<const float> scores) override {
    return Check(AppendArrow(columns, scores));
  }

  absl::Status Finish() override {
    if (writer_ == nullptr) RETURN_IF_ERROR(Append(ColumnBatch(), {}));
    RETURN_IF_ERROR(Check(writer_->Close()));
    return file_.Finish();
  }

 private:
  arrow::Status AppendArrow(const ColumnBatch& columns, std::span<const float> scores) {
    const auto count = static_cast<int64_t>(scores.size() / outputs_.size());
    arrow::Int64Builder rows;
    for (int64_t i = 0; i < count; ++i) ARROW_RETURN_NOT_OK(rows.Append(rows_++));
    arrow::FieldVector fields;
    arrow::ArrayVector arrays;
    auto add = [&](const std::string& name, ArrayResult array) {
      ARROW_RETURN_NOT_OK(array.status());
      fields.push_back(arrow::field(name, (*array)->type()));
      arrays.push_back(*std::move(array));
      return arrow::Status::OK();
    };
    ARROW_RETURN_NOT_OK(add("row", rows.Finish()));
    for (const std::string& name : keep_) {
      if (const Column* column = columns.Find(name)) {
        ARROW_RETURN_NOT_OK(add(name, ColumnArray(*column)));
      }
    }
    for (size_t t = 0; t < outputs_.size(); ++t) {
      ARROW_RETURN_NOT_OK(add(outputs_[t], OutputArray(scores, t, outputs_.size())));
    }
    auto schema = arrow::schema(fields);
    if (writer_ == nullptr) {
      parquet::WriterProperties::Builder properties;
      properties.compression(parquet::Compression::SNAPPY);
      ARROW_ASSIGN_OR_RAISE(
          writer_, parquet::arrow::FileWriter::Open(*schema, arrow::default_memory_pool(), stream_,
                                                    properties.build()));
    }
    return writer_->WriteRecordBatch(*arrow::RecordBatch::Make(schema, count, arrays));
  }

  absl::Status Check(const arrow::Status& status) const {
    if (status.ok()) return absl::OkStatus();
    if (!stream_->status().ok()) return stream_->status();
    return absl::InternalError(absl::StrCat(file_.path(), ": ", status.message()));
  }

  PendingFile file_;
  const std::shared_ptr<PendingStream> stream_;
  const std::vector<std::string> keep_, outputs_;
  int64_t rows_ = 0;
  std::unique_ptr<parquet::arrow::FileWriter> writer_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ScoreWriter>> ScoreWriter::Create(
    const std::string& path, const std::vector<std::string>& keep,
    const std::vector<std::string>& outputs) {
  if (absl::EndsWith(path, ".parquet")) {
    auto writer = std::make_unique<ParquetWriter>(path, keep, outputs);
    RETURN_IF_ERROR(writer->Start());
    return writer;
  }
  if (path != "-" && !absl::EndsWith(path, ".csv")) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", path, "\" is neither FILE.parquet, FILE.csv nor - (CSV to stdout)"));
  }
  auto file = path == "-" ? nullptr : std::make_unique<PendingFile>(path);
  auto writer = std::make_unique<CsvWriter>(std::move(file), keep, outputs);
  RETURN_IF_ERROR(writer->Start());
  return writer;
}

}  // namespace starling
