// CSV and TSV, plain or gzipped, with a header row. A part is a block of whole
// lines, found by one pass over the text when the file is opened. Types are
// those Arrow infers from the first block that has a value; a later value that
// does not fit is an error that names its row.
#include <arrow/buffer.h>
#include <arrow/chunked_array.h>
#include <arrow/csv/options.h>
#include <arrow/csv/reader.h>
#include <arrow/io/compressed.h>
#include <arrow/io/interfaces.h>
#include <arrow/io/memory.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <arrow/util/compression.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "base/status.h"
#include "sample_io/arrow_reading.h"
#include "sample_io/csv_scanner.h"
#include "sample_io/data_path.h"
#include "sample_io/sample_file.h"

namespace starling {
namespace {

using Input = std::shared_ptr<arrow::io::RandomAccessFile>;
using Stream = std::shared_ptr<arrow::io::InputStream>;
using Buffer = std::shared_ptr<arrow::Buffer>;
using TableResult = arrow::Result<std::shared_ptr<arrow::Table>>;

constexpr int64_t kBlockBytes = 4 << 20;
// Gzip has no way into its middle: a block is reached by unpacking all before
// it, so there are fewer of them.
constexpr int64_t kGzipBlockBytes = 32 << 20;
constexpr int64_t kReadBytes = 1 << 20;
constexpr absl::string_view kByteOrderMark = "\xEF\xBB\xBF";

struct TextStream {
  std::unique_ptr<arrow::util::Codec> codec;  // Null if the text is plain. Outlives `stream`.
  Stream stream;
};

bool IsTabbed(absl::string_view path) {
  return absl::EndsWithIgnoreCase(path, ".tsv") || absl::EndsWithIgnoreCase(path, ".tsv.gz");
}

// The number after `mark` in a message of Arrow's, or -1.
int64_t NumberAfter(absl::string_view text, absl::string_view mark) {
  size_t at = text.find(mark);
  if (at == absl::string_view::npos) return -1;
  absl::string_view digits = text.substr(at + mark.size());
  digits = digits.substr(0, digits.find_first_not_of("0123456789"));
  int64_t number = -1;
  return absl::SimpleAtoi(digits, &number) ? number : -1;
}

class CsvFile : public SampleFile {
 public:
  explicit CsvFile(const std::string& path)
      : path_(path),
        gzip_(absl::EndsWithIgnoreCase(PathPart(path), ".gz")),
        delimiter_(IsTabbed(PathPart(path)) ? '\t' : ',') {}

  absl::Status Init() {
    ASSIGN_OR_RETURN(Input input, OpenInput(path_));
    bytes_ = input->GetSize().ValueOr(-1);
    arrow::Status status = Index(input);
    if (!status.ok()) return NotWhole(path_, status.message());
    for (const std::string& name : names_) types_[name] = arrow::null();
    RETURN_IF_ERROR(TakeFields());  // Once for the names, which must differ, once for the types.
    RETURN_IF_ERROR(InferTypes(input));
    return TakeFields();
  }

  const std::string& path() const override { return path_; }
  const std::vector<Field>& fields() const override { return fields_; }
  const std::vector<int64_t>& part_rows() const override { return part_rows_; }
  absl::string_view part_name() const override { return "block"; }

  absl::StatusOr<std::vector<Column>> Read(const PartRange& range,
                                           const std::vector<std::string>& columns,
                                           std::vector<Column> /*spent*/) const override {
    const std::string where = absl::StrCat(path_, ": block ", range.part);
    ASSIGN_OR_RETURN(Input input, Reopen(path_, bytes_, where));
    ASSIGN_OR_RETURN(std::shared_ptr<arrow::Table> table, ReadBlock(input, range.part, columns));
    std::vector<Column> out(columns.size());
    for (size_t i = 0; i < columns.size(); ++i) {
      out[i].name = columns[i];
      auto values = table->GetColumnByName(columns[i]);
      RETURN_IF_ERROR(Annotate(ToColumn(values->Slice(range.begin, range.rows),
                                        *FieldNamed(fields_, columns[i]), range.rows, &out[i]),
                               absl::StrCat(where, ": column ", columns[i])));
    }
    return out;
  }

 private:
  // Reads the whole text once: where its rows are, and what the header says.
  arrow::Status Index(const Input& input) {
    CsvScanner scanner(delimiter_, gzip_ ? kGzipBlockBytes : kBlockBytes);
    ARROW_ASSIGN_OR_RAISE(TextStream text, OpenText(input));
    bool first = true;
    while (true) {
      ARROW_ASSIGN_OR_RAISE(Buffer some, text.stream->Read(kReadBytes));
      if (some->size() == 0) break;
      absl::string_view bytes(reinterpret_cast<const char*>(some->data()), some->size());
      if (first && absl::StartsWith(bytes, kByteOrderMark)) {
        text_begin_ = static_cast<int64_t>(kByteOrderMark.size());
        bytes.remove_prefix(kByteOrderMark.size());
      }
      first = false;
      scanner.Add(bytes);
    }
    if (!scanner.Finish()) return arrow::Status::Invalid("the text ends inside a quoted value");
    if (!scanner.has_header()) return arrow::Status::Invalid("the file is empty, without a header");
    blocks_ = scanner.blocks();
    for (CsvBlock& block : blocks_) {
      block.offset += text_begin_;
      part_rows_.push_back(block.rows);
    }
    ARROW_ASSIGN_OR_RAISE(Buffer header, ReadText(input, text_begin_ + scanner.header_offset(),
                                                  scanner.data_offset() - scanner.header_offset()));
    ARROW_ASSIGN_OR_RAISE(auto table, Parse(header, arrow::csv::ConvertOptions::Defaults()));
    names_ = table->schema()->field_names();
    return arrow::Status::OK();
  }

  arrow::Result<TextStream> OpenText(const Input& input) const {
    TextStream text{nullptr, input};
    ARROW_RETURN_NOT_OK(input->Seek(0));
    if (!gzip_) return text;
    // The unpacking stream closes what it reads from.
    auto own = OpenInput(path_);
    if (!own.ok()) return arrow::Status::IOError(std::string(own.status().message()));
    ARROW_ASSIGN_OR_RAISE(text.codec, arrow::util::Codec::Create(arrow::Compression::GZIP));
    ARROW_ASSIGN_OR_RAISE(text.stream,
                          arrow::io::CompressedInputStream::Make(text.codec.get(), *own));
    return text;
  }

  arrow::Result<Buffer> ReadText(const Input& input, int64_t offset, int64_t bytes) const {
    Buffer buffer;
    if (gzip_) {
      ARROW_ASSIGN_OR_RAISE(TextStream text, OpenText(input));
      for (int64_t left = offset; left > 0;) {
        ARROW_ASSIGN_OR_RAISE(Buffer passed, text.stream->Read(std::min(left, kReadBytes)));
        if (passed->size() == 0) break;
        left -= passed->size();
      }
      ARROW_ASSIGN_OR_RAISE(buffer, text.stream->Read(bytes));
    } else {
      ARROW_ASSIGN_OR_RAISE(buffer, input->ReadAt(offset, bytes));
    }
    if (buffer->size() == bytes) return buffer;
    return arrow::Status::IOError("the text is shorter than it was");
  }

  // Without `names_`, the first row of the text is the header.
  TableResult Parse(const Buffer& text, const arrow::csv::ConvertOptions& convert) const {
    auto read = arrow::csv::ReadOptions::Defaults();
    read.use_threads = false;
    read.block_size = static_cast<int32_t>(
        std::min<int64_t>(text->size() + 1, std::numeric_limits<int32_t>::max()));
    read.column_names = names_;
    auto parse = arrow::csv::ParseOptions::Defaults();
    parse.delimiter = delimiter_;
    parse.newlines_in_values = true;
    return GuardedCall<TableResult, arrow::Status>([&]() -> TableResult {
      ARROW_ASSIGN_OR_RAISE(
          auto reader, arrow::csv::TableReader::Make(
                           arrow::io::default_io_context(),
                           std::make_shared<arrow::io::BufferReader>(text), read, parse, convert));
      return reader->Read();
    });
  }

  // An empty value is a null, as is \N, which Hive writes; "" is an empty string.
  static arrow::csv::ConvertOptions Convert(const std::vector<std::string>& columns) {
    auto convert = arrow::csv::ConvertOptions::Defaults();
    convert.check_utf8 = false;
    convert.null_values = {"", "\\N"};
    convert.strings_can_be_null = true;
    convert.quoted_strings_can_be_null = false;
    convert.include_columns = columns;
    return convert;
  }

  absl::Status TakeFields() {
    arrow::FieldVector fields;
    for (const std::string& name : names_) fields.push_back(arrow::field(name, types_[name]));
    ASSIGN_OR_RETURN(fields_, FieldsOf(path_, arrow::Schema(fields)));
    return absl::OkStatus();
  }

  // A column without any value in a block takes its type from the next.
  absl::Status InferTypes(const Input& input) {
    std::vector<std::string> open = names_;
    for (size_t b = 0; b < blocks_.size() && !open.empty(); ++b) {
      auto text = ReadText(input, blocks_[b].offset, blocks_[b].bytes);
      if (!text.ok()) return NotWhole(path_, text.status().message());
      auto table = Parse(*text, Convert(open));
      if (!table.ok()) return Misfit(static_cast<int>(b), table.status());
      for (const std::string& name : open) types_[name] = (*table)->GetColumnByName(name)->type();
      std::erase_if(open,
                    [&](const std::string& name) { return types_[name]->id() != arrow::Type::NA; });
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::shared_ptr<arrow::Table>> ReadBlock(
      const Input& input, int part, const std::vector<std::string>& columns) const {
    auto text = ReadText(input, blocks_[part].offset, blocks_[part].bytes);
    if (!text.ok()) {
      return Annotate(DamagedFile(text.status().message()), absl::StrCat(path_, ": block ", part));
    }
    // Arrow reads all columns if none is included.
    auto convert = Convert(columns.empty() ? std::vector<std::string>{names_[0]} : columns);
    convert.column_types = {types_.begin(), types_.end()};
    auto table = Parse(*text, convert);
    if (!table.ok()) return Misfit(part, table.status());
    if ((*table)->num_rows() == blocks_[part].rows) return *table;
    return Annotate(
        DamagedFile(absl::StrCat((*table)->num_rows(), " rows in place of ", blocks_[part].rows)),
        absl::StrCat(path_, ": block ", part));
  }

  // Arrow's message, with the row counted in the file and the column by name.
  absl::Status Misfit(int part, const arrow::Status& status) const {
    std::string where = path_;
    const int64_t row = NumberAfter(status.message(), "Row #");
    if (row > 0) {
      absl::StrAppend(&where, ": row ", blocks_[part].first_row + row);
    } else {
      absl::StrAppend(&where, ": block ", part, " (rows ", blocks_[part].first_row + 1, "..",
                      blocks_[part].first_row + blocks_[part].rows, ")");
    }
    const int64_t column = NumberAfter(status.message(), "column #");
    if (column >= 0 && column < static_cast<int64_t>(names_.size())) {
      absl::StrAppend(&where, ": column ", names_[column]);
    }
    absl::string_view why = status.message();
    if (size_t at = why.rfind("CSV "); at != absl::string_view::npos) why.remove_prefix(at);
    return absl::FailedPreconditionError(absl::StrCat(
        where, ": ", why,
        "; a column has the type of its first values: mend the row, or write Parquet"));
  }

  const std::string path_;
  const bool gzip_;
  const char delimiter_;
  std::vector<Field> fields_;
  std::vector<int64_t> part_rows_;
  int64_t bytes_ = 0;
  int64_t text_begin_ = 0;  // After a byte order mark.
  std::vector<CsvBlock> blocks_;
  std::vector<std::string> names_;
  std::map<std::string, std::shared_ptr<arrow::DataType>> types_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<SampleFile>> OpenCsvFile(const std::string& path) {
  auto file = std::make_unique<CsvFile>(path);
  RETURN_IF_ERROR(file->Init());
  return file;
}

}  // namespace starling
