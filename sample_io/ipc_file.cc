// Arrow IPC, as a file (random access, a footer) or as a stream (batches one
// after another, an end mark): told apart by the first bytes. A part is a
// record batch.
#include <arrow/array.h>
#include <arrow/array/concatenate.h>
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
#include <span>
#include <utility>

#include "absl/strings/match.h"
#include "base/status.h"
#include "sample_io/arrow_reading.h"
#include "sample_io/data_path.h"
#include "sample_io/ipc_batches.h"
#include "sample_io/sample_file.h"

namespace starling {
namespace {

using Input = std::shared_ptr<arrow::io::RandomAccessFile>;
using BatchResult = arrow::Result<std::shared_ptr<arrow::RecordBatch>>;

constexpr int64_t kFileHead = 8;  // Before the first message of a file: its magic word.
// What a batch takes as columns, to its bytes: narrow numbers are widened, strings
// pointed at; and at least, by value, however well it is packed.
constexpr int64_t kWidening = 2, kValueBytes = 16;

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
    for (size_t i = 0; i < part_rows_.size(); ++i) {
      part_bytes_.push_back(std::max(kWidening * batches_[i].bytes,
                                     part_rows_[i] * std::ssize(fields_) * kValueBytes));
    }
    return absl::OkStatus();
  }

  const std::string& path() const override { return path_; }
  const std::vector<Field>& fields() const override { return fields_; }
  const std::vector<int64_t>& part_rows() const override { return part_rows_; }
  absl::string_view part_name() const override { return "record batch"; }
  const std::vector<int64_t>& part_bytes() const override { return part_bytes_; }
  int64_t least_bytes(int part) const override { return ByColumn() ? 0 : batches_[part].bytes; }

  absl::StatusOr<std::vector<Column>> Read(const PartRange& range,
                                           const std::vector<std::string>& columns,
                                           std::vector<Column> /*spent*/) const override {
    const std::string where = absl::StrCat(path_, ": record batch ", range.part);
    ASSIGN_OR_RETURN(Input input, Reopen(path_, bytes_, where));
    std::vector<Column> out(columns.size());
    for (size_t i = 0; i < columns.size(); ++i) out[i].name = columns[i];
    if (IsWhole(range) || !ByColumn()) {
      RETURN_IF_ERROR(Annotate(ReadColumns(input, range, out), where));
      return out;
    }
    // A column at a time: that the batch is cut means that all are too much at once.
    for (Column& column : out) {
      RETURN_IF_ERROR(Annotate(ReadColumns(input, range, {&column, 1}), where));
    }
    return out;
  }

 private:
  // True if a column can be read without the others. Arrow alone has read the dictionaries.
  bool ByColumn() const { return !has_dictionary_; }
  bool IsWhole(const PartRange& range) const { return range.rows == part_rows_[range.part]; }

  // Fills `columns`, whose names are there.
  absl::Status ReadColumns(const Input& input, const PartRange& range,
                           std::span<Column> columns) const {
    if (columns.empty()) return absl::OkStatus();
    std::vector<int> wanted;
    for (const Column& column : columns) {
      const Field* field = FieldNamed(fields_, column.name);
      const int index = schema_->GetFieldIndex(field != nullptr ? field->top : column.name);
      if (std::find(wanted.begin(), wanted.end(), index) == wanted.end()) wanted.push_back(index);
    }
    BatchResult batch = GuardedCall<BatchResult, arrow::Status>([&] {
      if (!has_dictionary_) return ReadAlone(input, batches_[range.part], wanted);
      return is_stream_ ? ReadOfStream(input, range.part, wanted)
                        : ReadOfFile(input, range.part, wanted);
    });
    if (!batch.ok()) return DamagedFile(batch.status().message());
    if ((*batch)->num_rows() != part_rows_[range.part]) {
      return DamagedFile("another number of rows than before");
    }
    for (Column& column : columns) {
      RETURN_IF_ERROR(
          Annotate(TakeColumn(**batch, range, &column), absl::StrCat("column ", column.name)));
    }
    return absl::OkStatus();
  }

  arrow::Status IndexFile(const Input& input) {
    ARROW_ASSIGN_OR_RAISE(auto reader, arrow::ipc::RecordBatchFileReader::Open(input));
    ARROW_RETURN_NOT_OK(TakeSchema(reader->schema()));
    ARROW_ASSIGN_OR_RAISE(IpcBatches found, FindBatches(*input, kFileHead));
    if (std::ssize(found.batches) != reader->num_record_batches()) {
      return arrow::Status::Invalid(found.batches.size(), " record batches, but ",
                                    reader->num_record_batches(), " by the footer");
    }
    batches_ = std::move(found.batches);
    if (plain_field_ >= 0) return CountRows(input);
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
    ARROW_ASSIGN_OR_RAISE(auto schema, arrow::ipc::ReadSchema(input.get(), &memo));
    ARROW_RETURN_NOT_OK(TakeSchema(std::move(schema)));
    ARROW_ASSIGN_OR_RAISE(IpcBatches found, FindBatches(*input, 0));
    if (!found.ended) {
      return arrow::Status::Invalid("the stream has no end mark: it was cut short");
    }
    batches_ = std::move(found.batches);
    return plain_field_ >= 0 ? CountRows(input) : CountRowsInTurn(input);
  }

  arrow::Status TakeSchema(std::shared_ptr<arrow::Schema> schema) {
    schema_ = std::move(schema);
    for (int i = schema_->num_fields(); i-- > 0;) {
      if (HasDictionary(*schema_->field(i)->type())) {
        has_dictionary_ = true;
      } else {
        plain_field_ = i;
      }
    }
    if (schema_->num_fields() > 0) return arrow::Status::OK();
    return arrow::Status::Invalid("there is no column");
  }

  // By a column that can be read without the others: a batch that is beyond the budget is refused
  // before any of it is in memory.
  arrow::Status CountRows(const Input& input) {
    for (const IpcBatch& at : batches_) {
      ARROW_ASSIGN_OR_RAISE(auto batch, ReadAlone(input, at, {plain_field_}));
      part_rows_.push_back(batch->num_rows());
    }
    return arrow::Status::OK();
  }

  // Where every column has a dictionary: by reading batches one after the other.
  arrow::Status CountRowsInTurn(const Input& input) {
    ARROW_RETURN_NOT_OK(input->Seek(0));
    ARROW_ASSIGN_OR_RAISE(auto reader,
                          arrow::ipc::RecordBatchStreamReader::Open(input, ReadOptions({0})));
    for (size_t i = 0; i < batches_.size(); ++i) {
      std::shared_ptr<arrow::RecordBatch> batch;
      ARROW_RETURN_NOT_OK(reader->ReadNext(&batch));
      if (batch == nullptr) return arrow::Status::Invalid("batch ", i, " is missing");
      part_rows_.push_back(batch->num_rows());
    }
    return arrow::Status::OK();
  }

  BatchResult ReadOfFile(const Input& input, int part, const std::vector<int>& wanted) const {
    ARROW_ASSIGN_OR_RAISE(auto reader,
                          arrow::ipc::RecordBatchFileReader::Open(input, ReadOptions(wanted)));
    return reader->ReadRecordBatch(part);
  }

  // The bytes of these columns alone, of which none has a dictionary.
  BatchResult ReadAlone(const Input& input, const IpcBatch& at,
                        const std::vector<int>& wanted) const {
    arrow::ipc::DictionaryMemo memo;
    const auto body = BodyOf(at, input.get());
    return arrow::ipc::ReadRecordBatch(*at.header, schema_, &memo, ReadOptions(wanted), body.get());
  }

  BatchResult ReadOfStream(const Input& input, int part, const std::vector<int>& wanted) const {
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
    if (!IsWhole(range)) array = array->Slice(range.begin, range.rows);
    // IPC has no checksums: what the bytes claim is checked in full before it is followed.
    if (auto status = array->ValidateFull(); !status.ok()) return DamagedFile(status.message());
    if (!IsWhole(range)) {  // A copy: strings would keep all of the batch's in memory.
      using ArrayResult = arrow::Result<std::shared_ptr<arrow::Array>>;
      ArrayResult copy =
          GuardedCall<ArrayResult, arrow::Status>([&] { return arrow::Concatenate({array}); });
      if (!copy.ok()) return DamagedFile(copy.status().message());
      array = *std::move(copy);
    }
    return ToColumn(std::make_shared<arrow::ChunkedArray>(array), *field, range.rows, column);
  }

  const std::string path_;
  std::vector<Field> fields_;
  std::vector<int64_t> part_rows_, part_bytes_;
  std::vector<IpcBatch> batches_;
  int64_t bytes_ = 0;
  std::shared_ptr<arrow::Schema> schema_;
  bool is_stream_ = false;
  bool has_dictionary_ = false;
  int plain_field_ = -1;  // The first that has none; -1: all have.
};

}  // namespace

absl::StatusOr<std::unique_ptr<SampleFile>> OpenIpcFile(const std::string& path) {
  auto file = std::make_unique<IpcFile>(path);
  RETURN_IF_ERROR(file->Init());
  return file;
}

}  // namespace starling
