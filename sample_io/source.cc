#include "sample_io/source.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/hash.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "sample_io/data.pb.h"
#include "sample_io/data_path.h"
#include "sample_io/file_list.h"
#include "sample_io/merged_schema.h"
#include "sample_io/path_keys.h"
#include "sample_io/sample_file.h"

namespace starling {
namespace {

constexpr int kOpenThreads = 8;
constexpr int64_t kIndexBytesMax = 256 << 20;  // Footers beyond are parsed anew by each Read.

// A split is at most this share of the budget, for several are in memory at once.
constexpr int64_t kSplitShare = 8;
// What can only be read whole may be this share.
constexpr int64_t kWholeShare = 2;
// Pieces of a part end between batches, of the usual sizes, …
constexpr int64_t kPieceAlign = 4096;
// … and are not so many that a footer which tells nonsense fills the memory.
constexpr int64_t kPiecesMax = 4096;
constexpr int64_t kUntoldBytes = 16;  // A value's, where a format tells nothing.

// Rows of a part that make one split, so that it takes `bytes_max` or less.
int64_t PieceRows(int64_t rows, int64_t bytes, int64_t bytes_max) {
  if (bytes <= bytes_max) return rows;
  const int64_t pieces = std::clamp<int64_t>(bytes / bytes_max + 1, 1, kPiecesMax);
  const int64_t piece = std::max<int64_t>(1, rows / pieces);
  return piece < kPieceAlign ? piece : piece / kPieceAlign * kPieceAlign;
}

struct File {
  std::unique_ptr<SampleFile> data;
  size_t path = 0;                 // Its place in the list of all.
  std::vector<uint8_t> may_match;  // By part.
};

class FileSource : public SampleSource {
 public:
  absl::Status Init(const std::vector<std::string>& patterns, const SourceOptions& options) {
    if (!options.where.empty()) {
      auto where = Predicate::Parse(options.where);
      if (!where.ok()) return Annotate(where.status(), "where");
      where_ = *std::move(where);
    }
    read_memory_ = options.read_memory > 0 ? options.read_memory : DataOptions().read_memory();
    ASSIGN_OR_RETURN(std::vector<std::string> paths, ListFiles(patterns));
    ASSIGN_OR_RETURN(std::unique_ptr<SampleFile> first, SampleFile::Open(paths[0]));
    ASSIGN_OR_RETURN(keys_, PathKeys::Create(paths, first->fields()));
    PickFiles(paths.size());
    RETURN_IF_ERROR(OpenFiles(paths));
    RETURN_IF_ERROR(Merge(*first));
    if (where_) RETURN_IF_ERROR(Annotate(where_->Bind(schema_), "where"));
    RETURN_IF_ERROR(CheckParts());
    ListSplits();
    if (where_) fingerprint_ = HashBytes(options.where, fingerprint_);
    if (rows_ > 0) return absl::OkStatus();
    const bool ruled_out = counts_.files_passed_over + counts_.splits_passed_over > 0;
    return ruled_out && options.may_be_empty ? absl::OkStatus() : NoRows(patterns, paths);
  }

  const std::vector<Split>& splits() const override { return splits_; }
  const std::vector<ColumnSchema>& schema() const override { return schema_; }
  const std::vector<SchemaNote>& notes() const override { return notes_; }
  int64_t rows() const override { return rows_; }
  uint64_t fingerprint() const override { return fingerprint_; }
  int64_t read_memory() const override { return read_memory_; }
  SourceCounts counts() const override {
    SourceCounts counts = counts_;
    counts.splits_without_match = splits_without_match_;
    counts.rows_read = rows_read_;
    counts.rows_matched = rows_matched_;
    counts.values_read = values_read_;
    counts.member_values_read = member_values_read_;
    return counts;
  }

  absl::StatusOr<ColumnBatch> Read(int split,
                                   const std::vector<std::string>& columns) const override {
    return ReadReusing(split, columns, {});
  }

  absl::StatusOr<ColumnBatch> ReadReusing(int split, const std::vector<std::string>& columns,
                                          ColumnBatch spent) const override {
    const Split& of = splits_[split];
    rows_read_ += of.rows;
    if (!where_) {
      rows_matched_ += of.rows;
      return ReadAll(split, columns, std::move(spent));
    }
    ASSIGN_OR_RETURN(ColumnBatch judged, ReadAll(split, where_->columns(), {}));
    RETURN_IF_ERROR(CheckKnown(columns, of.file));
    ColumnBatch batch;
    batch.part_rows = where_->Matching(judged.columns, of.rows);
    batch.rows = static_cast<int64_t>(batch.part_rows.size());
    rows_matched_ += batch.rows;
    if (batch.rows == 0) return Empty(columns);
    if (batch.rows == of.rows) batch.part_rows.clear();
    std::vector<std::string> others;
    for (const std::string& name : columns) {
      if (judged.Find(name) == nullptr) others.push_back(name);
    }
    ASSIGN_OR_RETURN(ColumnBatch rest, ReadAll(split, others, {}));
    auto next = rest.columns.begin();
    for (const std::string& name : columns) {
      const Column* known = judged.Find(name);
      batch.columns.push_back(known != nullptr ? *known : std::move(*next++));
      if (!batch.part_rows.empty()) PickFileRows(batch.part_rows, &batch.columns.back());
    }
    return batch;
  }

 private:
  // All rows of a split.
  absl::StatusOr<ColumnBatch> ReadAll(int split, const std::vector<std::string>& columns,
                                      ColumnBatch spent) const {
    const Split& of = splits_[split];
    const File& file = files_[file_of_split_[split]];
    RETURN_IF_ERROR(CheckKnown(columns, of.file));
    std::vector<std::string> stored;
    for (const std::string& name : columns) {
      if (!keys_.contains(name)) stored.push_back(name);
    }
    ASSIGN_OR_RETURN(std::vector<Column> read, file.data->Read({of.row_group, of.begin, of.rows},
                                                               stored, std::move(spent.columns)));
    for (const Column& column : read) {
      (column.outer_offsets.empty() ? values_read_ : member_values_read_) += column.rows;
    }
    ColumnBatch batch;
    batch.rows = of.rows;
    auto next = read.begin();
    for (const std::string& name : columns) {
      batch.columns.push_back(keys_.contains(name) ? keys_.ColumnOf(file.path, name, of.rows)
                                                   : std::move(*next++));
    }
    return batch;
  }

  // No row matches: columns of no value, for which nothing was read.
  ColumnBatch Empty(const std::vector<std::string>& columns) const {
    ++splits_without_match_;
    ColumnBatch batch;
    for (const std::string& name : columns) batch.columns.emplace_back().name = name;
    return batch;
  }

  // Lists the files that may hold a row, judged by their paths alone.
  void PickFiles(size_t paths) {
    for (size_t i = 0; i < paths; ++i) {
      if (where_ && !where_->MayMatch(BoundsOf(i, nullptr, 0))) {
        ++counts_.files_passed_over;
      } else {
        files_.push_back({nullptr, i, {}});
      }
    }
  }

  // What is known of the predicate's columns in a part of a file; of its keys, without `data`.
  std::vector<ValueBounds> BoundsOf(size_t path, const SampleFile* data, int part) const {
    std::vector<ValueBounds> bounds;
    for (const std::string& name : where_->columns()) {
      if (keys_.contains(name)) {
        bounds.push_back(ValueBounds::Exactly(keys_.ColumnOf(path, name, 1)));
      } else {
        bounds.push_back(data != nullptr ? data->BoundsOf(part, name) : ValueBounds());
      }
    }
    return bounds;
  }

  absl::Status OpenFiles(const std::vector<std::string>& paths) {
    std::vector<absl::Status> statuses(files_.size());
    ThreadPool pool(std::clamp<int>(static_cast<int>(files_.size()), 1, kOpenThreads));
    pool.ParallelFor(static_cast<int>(files_.size()), [&](int i) {
      auto opened = SampleFile::Open(paths[files_[i].path]);
      if (opened.ok()) files_[i].data = *std::move(opened);
      statuses[i] = opened.ok() ? JudgeParts(&files_[i]) : opened.status();
    });
    int64_t index_bytes = 0;
    for (size_t i = 0; i < files_.size(); ++i) {
      RETURN_IF_ERROR(statuses[i]);
      index_bytes += files_[i].data->index_bytes();
      if (index_bytes > kIndexBytesMax) files_[i].data->DropIndex();
    }
    return absl::OkStatus();
  }

  // Which parts may hold a row, while the file's index is there.
  absl::Status JudgeParts(File* file) const {
    const SampleFile& data = *file->data;
    file->may_match.assign(data.part_rows().size(), 1);
    if (!where_) return absl::OkStatus();
    std::vector<ColumnSchema> schema;
    for (const auto& field : data.fields())
      schema.push_back({field.name, field.type, field.in_list});
    AddKeys(&schema);
    Predicate where = *where_;
    RETURN_IF_ERROR(Annotate(where.Bind(schema), absl::StrCat("where: ", data.path())));
    for (size_t part = 0; part < data.part_rows().size(); ++part) {
      file->may_match[part] =
          where.MayMatch(BoundsOf(file->path, &data, static_cast<int>(part))) ? 1 : 0;
    }
    return absl::OkStatus();
  }

  // The schema of all files that are opened; that of `first` if none may match.
  absl::Status Merge(const SampleFile& first) {
    std::vector<const SampleFile*> files;
    if (files_.empty()) files.push_back(&first);
    for (const File& file : files_) files.push_back(file.data.get());
    ASSIGN_OR_RETURN(MergedSchema merged, MergeSchemas(files));
    schema_ = std::move(merged.columns);
    notes_ = std::move(merged.notes);
    AddKeys(&schema_);
    return absl::OkStatus();
  }

  void AddKeys(std::vector<ColumnSchema>* schema) const {
    for (const auto& [key, is_int] : keys_.is_int()) {
      schema->push_back({key, is_int ? "int64" : "string"});
    }
  }

  // A part that cannot be read in pieces must fit into the budget beside another.
  absl::Status CheckParts() const {
    for (const File& file : files_) {
      const SampleFile& data = *file.data;
      for (size_t part = 0; part < data.part_rows().size(); ++part) {
        const int64_t bytes = data.least_bytes(static_cast<int>(part));
        if (bytes <= read_memory_ / kWholeShare || !file.may_match[part]) continue;
        return absl::FailedPreconditionError(absl::StrCat(
            data.path(), ": ", data.part_name(), " ", part, " takes ", bytes >> 20,
            " MiB and can only be read whole, which is more than half of data.read_memory (",
            read_memory_ >> 20,
            " MiB); raise that, or write smaller ones or without dictionaries"));
      }
    }
    return absl::OkStatus();
  }

  void ListSplits() {
    for (size_t f = 0; f < files_.size(); ++f) {
      const SampleFile& data = *files_[f].data;
      std::string name = std::filesystem::path(PathPart(data.path())).filename().string();
      for (size_t g = 0; g < data.part_rows().size(); ++g) {
        int64_t rows = data.part_rows()[g];
        if (rows == 0) continue;
        if (!files_[f].may_match[g]) {
          ++counts_.splits_passed_over;
          continue;
        }
        fingerprint_ = HashBytes(absl::StrCat(name, "\n", g, "\n", rows), fingerprint_);
        ListPieces(f, static_cast<int>(g));
        rows_ += rows;
      }
    }
  }

  // The splits of one part: one, unless it is too large.
  void ListPieces(size_t f, int part) {
    const SampleFile& data = *files_[f].data;
    const int64_t rows = data.part_rows()[part];
    const bool told = !data.part_bytes().empty();
    const int64_t bytes =
        told ? data.part_bytes()[part] : rows * std::ssize(data.fields()) * kUntoldBytes;
    const int64_t piece = told ? PieceRows(rows, bytes, read_memory_ / kSplitShare) : rows;
    if (piece < rows) fingerprint_ = HashBytes(absl::StrCat("by ", piece), fingerprint_);
    for (int64_t begin = 0; begin < rows; begin += piece) {
      const int64_t n = std::min(piece, rows - begin);
      const double share = static_cast<double>(n) / static_cast<double>(rows);
      splits_.push_back({data.path(), part, n, data.part_name(), begin, rows,
                         static_cast<int64_t>(share * static_cast<double>(bytes))});
      file_of_split_.push_back(f);
    }
  }

  absl::Status NoRows(const std::vector<std::string>& patterns,
                      const std::vector<std::string>& paths) const {
    const std::string all = absl::StrJoin(patterns, ", ");
    if (counts_.files_passed_over + counts_.splits_passed_over > 0) {
      return absl::FailedPreconditionError(
          absl::StrCat(all, ": `where` leaves no row: it rules out ", counts_.files_passed_over,
                       " of ", paths.size(), " file(s) by their path and ",
                       counts_.splits_passed_over, " parts of the others by their statistics"));
    }
    return absl::FailedPreconditionError(absl::StrCat(all, ": no rows: all ", paths.size(),
                                                      " file(s), the first of them ", paths[0],
                                                      ", are without any; check what writes them"));
  }

  absl::Status CheckKnown(const std::vector<std::string>& names, const std::string& file) const {
    for (const std::string& name : names) {
      auto is_it = [&](const auto& column) { return column.name == name; };
      if (std::any_of(schema_.begin(), schema_.end(), is_it)) continue;
      for (const SchemaNote& note : notes_) {
        if (note.column == name) return absl::FailedPreconditionError(note.text);
      }
      std::vector<std::string> known;
      for (const ColumnSchema& column : schema_) known.push_back(column.name);
      return absl::FailedPreconditionError(
          absl::StrCat(file, ": no column ", name, "; the data has ", absl::StrJoin(known, ", ")));
    }
    return absl::OkStatus();
  }

  // Constant after Init.
  std::optional<Predicate> where_;
  PathKeys keys_;
  std::vector<File> files_;
  std::vector<ColumnSchema> schema_;
  std::vector<SchemaNote> notes_;
  std::vector<Split> splits_;
  std::vector<size_t> file_of_split_;
  int64_t rows_ = 0;
  uint64_t fingerprint_ = 0;
  int64_t read_memory_ = 0;
  SourceCounts counts_;  // But for these:
  mutable std::atomic<int64_t> splits_without_match_ = 0, rows_read_ = 0, rows_matched_ = 0,
                               values_read_ = 0, member_values_read_ = 0;
};

}  // namespace

std::string Split::Place() const {
  const std::string part = absl::StrCat(file, ": ", part_name, " ", row_group);
  if (rows == part_rows) return part;
  return absl::StrCat(part, ", rows ", begin, " to ", begin + rows - 1);
}

absl::StatusOr<std::unique_ptr<SampleSource>> SampleSource::Open(
    const std::vector<std::string>& patterns, const SourceOptions& options) {
  auto source = std::make_unique<FileSource>();
  RETURN_IF_ERROR(source->Init(patterns, options));
  return source;
}

}  // namespace starling
