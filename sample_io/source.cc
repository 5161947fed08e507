#include "sample_io/source.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "base/hash.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "sample_io/data_path.h"
#include "sample_io/file_list.h"
#include "sample_io/sample_file.h"

namespace starling {
namespace {

constexpr int kOpenThreads = 8;
constexpr int64_t kIndexBytesMax = 256 << 20;  // Footers beyond are parsed anew by each Read.
constexpr absl::string_view kHiveNull = "__HIVE_DEFAULT_PARTITION__";

struct File {
  std::unique_ptr<SampleFile> data;
  std::map<std::string, std::string> keys;  // Of the path.
};

bool AllDigits(const std::string& text) {
  int64_t ignored;
  return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit) &&
         absl::SimpleAtoi(text, &ignored);
}

// A path's key as a column: one value, repeated.
Column KeyColumn(const std::string& name, const std::string& value, bool is_int, int64_t rows) {
  Column column;
  column.name = name;
  column.rows = rows;
  column.type = is_int ? ColumnType::kInt64 : ColumnType::kString;
  if (value == kHiveNull) column.valid.assign(rows, 0);
  int64_t number = 0;
  if (is_int && value != kHiveNull && !absl::SimpleAtoi(value, &number)) number = 0;
  if (is_int) column.ints.assign(rows, number);
  if (!is_int) {
    auto text = std::make_shared<const std::string>(value);
    column.strings.assign(rows, *text);
    column.owner = text;
  }
  return column;
}

class FileSource : public SampleSource {
 public:
  absl::Status Init(const std::vector<std::string>& patterns) {
    ASSIGN_OR_RETURN(std::vector<std::string> paths, ListFiles(patterns));
    RETURN_IF_ERROR(OpenFiles(paths));
    RETURN_IF_ERROR(MergeSchemas());
    RETURN_IF_ERROR(MergeKeys());
    ListSplits();
    if (rows_ > 0) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        absl::StrJoin(patterns, ", "), ": no rows: all ", paths.size(),
        " file(s), the first of them ", paths[0], ", are without any; check what writes them"));
  }

  const std::vector<Split>& splits() const override { return splits_; }
  const std::vector<ColumnSchema>& schema() const override { return schema_; }
  int64_t rows() const override { return rows_; }
  uint64_t fingerprint() const override { return fingerprint_; }

  absl::StatusOr<ColumnBatch> Read(int split,
                                   const std::vector<std::string>& columns) const override {
    const Split& of = splits_[split];
    const File& file = files_[file_of_split_[split]];
    std::vector<std::string> stored;
    for (const std::string& name : columns) {
      if (key_is_int_.contains(name)) continue;
      RETURN_IF_ERROR(Annotate(CheckKnown(name), of.file));
      stored.push_back(name);
    }
    ASSIGN_OR_RETURN(std::vector<Column> read, file.data->Read({of.row_group, 0, of.rows}, stored));
    ColumnBatch batch;
    batch.rows = of.rows;
    auto next = read.begin();
    for (const std::string& name : columns) {
      auto key = key_is_int_.find(name);
      batch.columns.push_back(key == key_is_int_.end()
                                  ? std::move(*next++)
                                  : KeyColumn(name, file.keys.at(name), key->second, of.rows));
    }
    return batch;
  }

 private:
  absl::Status OpenFiles(const std::vector<std::string>& paths) {
    files_.resize(paths.size());
    std::vector<absl::Status> statuses(paths.size());
    ThreadPool pool(std::min<int>(kOpenThreads, static_cast<int>(paths.size())));
    pool.ParallelFor(static_cast<int>(paths.size()), [&](int i) {
      auto opened = SampleFile::Open(paths[i]);
      statuses[i] = opened.status();
      if (opened.ok()) files_[i].data = *std::move(opened);
      for (auto& [key, value] : HiveKeys(paths[i])) files_[i].keys[key] = value;
    });
    int64_t index_bytes = 0;
    for (size_t i = 0; i < paths.size(); ++i) {
      RETURN_IF_ERROR(statuses[i]);
      index_bytes += files_[i].data->index_bytes();
      if (index_bytes > kIndexBytesMax) files_[i].data->DropIndex();
    }
    return absl::OkStatus();
  }

  // Every file must hold the first one's columns, by name, in any order. A file
  // whose values of a column are all null may not know the column's type.
  absl::Status MergeSchemas() {
    const SampleFile& first = *files_[0].data;
    std::map<std::string, const SampleFile*> typed_by;
    std::map<std::string, SampleFile::Field> merged;
    for (const auto& field : first.fields()) merged[field.name] = field;
    for (const auto& field : first.fields()) typed_by[field.name] = &first;
    for (const File& file : files_) {
      const SampleFile& data = *file.data;
      RETURN_IF_ERROR(CheckNames(first, data));
      for (const auto& field : data.fields()) {
        SampleFile::Field& known = merged[field.name];
        if (known.null && !field.null) {
          known = field;
          typed_by[field.name] = &data;
        }
        if (field.null || field.family == known.family) continue;
        return absl::FailedPreconditionError(
            absl::StrCat(data.path(), ": column ", field.name, " is ", field.type, ", but ",
                         known.type, " in ", typed_by[field.name]->path(),
                         "; write the files with one schema, or train on those that share one"));
      }
    }
    for (const auto& field : first.fields()) {
      schema_.push_back({field.name, merged[field.name].type});
    }
    return absl::OkStatus();
  }

  static absl::Status CheckNames(const SampleFile& first, const SampleFile& file) {
    auto missing = [](const SampleFile& from, const SampleFile& in) -> absl::Status {
      for (const auto& field : from.fields()) {
        bool found = std::any_of(in.fields().begin(), in.fields().end(),
                                 [&](const auto& other) { return other.name == field.name; });
        if (found) continue;
        return absl::FailedPreconditionError(absl::StrCat(
            in.path(), ": column ", field.name, " (", field.type, ") is missing, but ", from.path(),
            " has it; write the files with one schema, or train on those that share one"));
      }
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(missing(first, file));
    return missing(file, first);
  }

  // Keys of paths become columns, unless the files hold a column of the name.
  absl::Status MergeKeys() {
    for (const auto& [key, value] : files_[0].keys) {
      bool stored = std::any_of(schema_.begin(), schema_.end(),
                                [&k = key](const ColumnSchema& c) { return c.name == k; });
      if (!stored) key_is_int_[key] = true;
    }
    for (const File& file : files_) {
      for (auto& [key, is_int] : key_is_int_) {
        auto found = file.keys.find(key);
        if (found == file.keys.end()) {
          return absl::FailedPreconditionError(
              absl::StrCat(file.data->path(), ": its path has no ", key, "=…, but that of ",
                           files_[0].data->path(), " has; name directories partitioned alike"));
        }
        is_int = is_int && (found->second == kHiveNull || AllDigits(found->second));
      }
    }
    for (const auto& [key, is_int] : key_is_int_)
      schema_.push_back({key, is_int ? "int64" : "string"});
    return absl::OkStatus();
  }

  void ListSplits() {
    for (size_t f = 0; f < files_.size(); ++f) {
      const SampleFile& data = *files_[f].data;
      std::string name = std::filesystem::path(PathPart(data.path())).filename().string();
      for (size_t g = 0; g < data.part_rows().size(); ++g) {
        int64_t rows = data.part_rows()[g];
        if (rows == 0) continue;
        splits_.push_back({data.path(), static_cast<int>(g), rows, data.part_name()});
        file_of_split_.push_back(f);
        rows_ += rows;
        fingerprint_ = HashBytes(absl::StrCat(name, "\n", g, "\n", rows), fingerprint_);
      }
    }
  }

  absl::Status CheckKnown(const std::string& name) const {
    for (const ColumnSchema& column : schema_) {
      if (column.name == name) return absl::OkStatus();
    }
    std::vector<std::string> names;
    for (const ColumnSchema& column : schema_) names.push_back(column.name);
    return absl::FailedPreconditionError(
        absl::StrCat("no column ", name, "; the data has ", absl::StrJoin(names, ", ")));
  }

  // Constant after Init.
  std::vector<File> files_;
  std::vector<ColumnSchema> schema_;
  std::map<std::string, bool> key_is_int_;  // Columns made from paths.
  std::vector<Split> splits_;
  std::vector<size_t> file_of_split_;
  int64_t rows_ = 0;
  uint64_t fingerprint_ = 0;
};

}  // namespace

std::string Split::Place() const { return absl::StrCat(file, ": ", part_name, " ", row_group); }

absl::StatusOr<std::unique_ptr<SampleSource>> SampleSource::Open(
    const std::vector<std::string>& patterns) {
  auto source = std::make_unique<FileSource>();
  RETURN_IF_ERROR(source->Init(patterns));
  return source;
}

}  // namespace starling
