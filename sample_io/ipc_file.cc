// Arrow IPC, as a file (random access, a footer) or as a stream (batches one
// after another, an end mark): told apart by the first bytes. A part is a
// record batch.
#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/chunked_array.h>
#include <arrow/io/interfaces.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/message.h>
#include <arrow/ipc/options.h>
#include <arrow/ipc/reader.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "base/status.h"
#include "sample_io/arrow_reading.h"
#include "sample_io/data_path.h"
#include "sample_io/sample_file.h"

namespace starling {
namespace {

using Input = std::shared_ptr<arrow::io::RandomAccessFile>;
using BatchResult = arrow::Result<std::shared_ptr<arrow::RecordBatch>>;

constexpr absl::string_view kEndMark("\xFF\xFF\xFF\xFF\0\0\0\0", 8);

// `fields`: positions in the schema, of the columns to be read.
arrow::ipc::IpcReadOptions ReadOptions(const std::vector<int>& fields) {
  arrow::ipc::IpcReadOptions options = arrow::ipc::IpcReadOptions::Defaults();
  options.use_threads = false;
  options.included_fields = fields;
  return options;
}

bool HasDictionary(const arrow::DataType& type) {
  if (type.id() == arrow::Type::DICTIONARY) return true;
  return std::any_of(type.fields().begin(), type.fields().end(),
                     [](const auto& child) { return HasDictionary(*child->type()); });
}

class IpcFile : public SampleFile {
 public:
  explicit IpcFile(const std::string& path) : path_(path) {}

  absl::Status Init() {
    ASSIGN_OR_RETURN(Input input, OpenInput(path_));
    bytes_ = input->GetSize().ValueOr(-1);
    const std::string head = HeadOf(path_);
    if (head.empty()) return NotWhole(path_, "the file is empty, without an Arrow schema");
    is_stream_ = !absl::StartsWith(head, "ARROW1");
    arrow::Status status = GuardedCall<arrow::Status, arrow::Status>(
        [&] { return is_stream_ ? IndexStream(input) : IndexFile(input); });
    if (!status.ok()) {
      return NotWhole(path_, absl::StrCat("not whole Arrow IPC (it starts with \"", head,
                                          "\"): ", status.message()));
    }
    ASSIGN_OR_RETURN(fields_, FieldsOf(path_, *schema_));
    return absl::OkStatus();
  }

  const std::string& path() const override { return path_; }
  const std::vector<Field>& fields() const override { return fields_; }
  const std::vector<int64_t>& part_rows() const override { return part_rows_; }
  absl::string_view part_name() const override { return "record batch"; }

  absl::StatusOr<std::vector<Column>> Read(const PartRange& range,
                                           const std::vector<std::string>& columns,
                                           std::vector<Column> /*spent*/) const override {
    const std::string where = absl::StrCat(path_, ": record batch ", range.part);
    ASSIGN_OR_RETURN(Input input, Reopen(path_, bytes_, where));
    std::vector<Column> out(columns.size());
    if (columns.empty()) return out;
    std::vector<int> wanted;
    for (const std::string& name : columns) {
      const Field* field = FieldNamed(fields_, name);
      const int index = schema_->GetFieldIndex(field != nullptr ? field->top : name);
      if (std::find(wanted.begin(), wanted.end(), index) == wanted.end()) wanted.push_back(index);
    }
    BatchResult batch = GuardedCall<BatchResult, arrow::Status>([&] {
      return is_stream_ ? ReadOfStream(input, range.part, wanted)
                        : ReadOfFile(input, range.part, wanted);
    });
    if (!batch.ok()) return Annotate(DamagedFile(batch.status().message()), where);
    if ((*batch)->num_rows() != part_rows_[range.part]) {
      return Annotate(DamagedFile("another number of rows than before"), where);
    }
    for (size_t i = 0; i < columns.size(); ++i) {
      out[i].name = columns[i];
      RETURN_IF_ERROR(Annotate(TakeColumn(**batch, range, &out[i]),
                               absl::StrCat(where, ": column ", columns[i])));
    }
    return out;
  }

 private:
  arrow::Status IndexFile(const Input& input) {
    ARROW_ASSIGN_OR_RAISE(auto reader,
                          arrow::ipc::RecordBatchFileReader::Open(input, ReadOptions({0})));
    // The reader's schema is of the included fields alone.
    ARROW_ASSIGN_OR_RAISE(auto full, arrow::ipc::RecordBatchFileReader::Open(input));
    schema_ = full->schema();
    if (schema_->num_fields() == 0) return arrow::Status::Invalid("there is no column");
    for (int i = 0; i < reader->num_record_batches(); ++i) {
      ARROW_ASSIGN_OR_RAISE(auto batch, reader->ReadRecordBatch(i));
      part_rows_.push_back(batch->num_rows());
    }
    return arrow::Status::OK();
  }

  // A stream may end anywhere between batches and still be valid: without its
  // end mark nobody can tell whether rows are missing, so the mark must be there.
  arrow::Status IndexStream(const Input& input) {
    arrow::ipc::DictionaryMemo memo;
    ARROW_ASSIGN_OR_RAISE(schema_, arrow::ipc::ReadSchema(input.get(), &memo));
    if (schema_->num_fields() == 0) return arrow::Status::Invalid("there is no column");
    for (const auto& field : schema_->fields()) {
      has_dictionary_ = has_dictionary_ || HasDictionary(*field->type());
    }
    ARROW_RETURN_NOT_OK(input->Seek(0));
    ARROW_ASSIGN_OR_RAISE(auto reader,
                          arrow::ipc::RecordBatchStreamReader::Open(input, ReadOptions({0})));
    while (true) {
      ARROW_ASSIGN_OR_RAISE(int64_t at, input->Tell());
      std::shared_ptr<arrow::RecordBatch> batch;
      ARROW_RETURN_NOT_OK(reader->ReadNext(&batch));
      if (batch == nullptr) break;
      offsets_.push_back(at);
      part_rows_.push_back(batch->num_rows());
    }
    ARROW_ASSIGN_OR_RAISE(int64_t end, input->Tell());
    const int64_t mark = static_cast<int64_t>(kEndMark.size());
    if (end >= mark) {
      ARROW_ASSIGN_OR_RAISE(auto last, input->ReadAt(end - mark, mark));
      if (last->ToString() == kEndMark) return arrow::Status::OK();
    }
    return arrow::Status::Invalid("the stream has no end mark: it was cut short");
  }

  BatchResult ReadOfFile(const Input& input, int part, const std::vector<int>& wanted) const {
    ARROW_ASSIGN_OR_RAISE(auto reader,
                          arrow::ipc::RecordBatchFileReader::Open(input, ReadOptions(wanted)));
    return reader->ReadRecordBatch(part);
  }

  // Straight to the batch's bytes, unless dictionaries may stand before it.
  BatchResult ReadOfStream(const Input& input, int part, const std::vector<int>& wanted) const {
    if (!has_dictionary_) {
      ARROW_RETURN_NOT_OK(input->Seek(offsets_[part]));
      arrow::ipc::DictionaryMemo memo;
      ARROW_ASSIGN_OR_RAISE(auto message, arrow::ipc::ReadMessage(input.get()));
      if (message == nullptr) return arrow::Status::Invalid("the batch is missing");
      return arrow::ipc::ReadRecordBatch(*message, schema_, &memo, ReadOptions(wanted));
    }
    ARROW_ASSIGN_OR_RAISE(auto reader,
                          arrow::ipc::RecordBatchStreamReader::Open(input, ReadOptions(wanted)));
    std::shared_ptr<arrow::RecordBatch> batch;
    for (int i = 0; i <= part; ++i) {
      ARROW_RETURN_NOT_OK(reader->ReadNext(&batch));
      if (batch == nullptr) return arrow::Status::Invalid("the batch is missing");
    }
    return batch;
  }

  absl::Status TakeColumn(const arrow::RecordBatch& batch, const PartRange& range,
                          Column* column) const {
    const Field* field = FieldNamed(fields_, column->name);
    auto array = field != nullptr ? batch.GetColumnByName(field->top) : nullptr;
    if (array == nullptr) return absl::FailedPreconditionError("no such column in the file");
    // IPC has no checksums: what the bytes claim is checked in full before it is followed.
    if (auto status = array->ValidateFull(); !status.ok()) return DamagedFile(status.message());
    auto slice = std::make_shared<arrow::ChunkedArray>(array->Slice(range.begin, range.rows));
    return ToColumn(slice, *field, range.rows, column);
  }

  const std::string path_;
  std::vector<Field> fields_;
  std::vector<int64_t> part_rows_;
  int64_t bytes_ = 0;
  std::shared_ptr<arrow::Schema> schema_;
  bool is_stream_ = false;
  bool has_dictionary_ = false;
  std::vector<int64_t> offsets_;  // Of a stream's batches.
};

}  // namespace

absl::StatusOr<std::unique_ptr<SampleFile>> OpenIpcFile(const std::string& path) {
  auto file = std::make_unique<IpcFile>(path);
  RETURN_IF_ERROR(file->Init());
  return file;
}

}  // namespace starling
