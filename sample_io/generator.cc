#include "sample_io/generator.h"

#include <arrow/api.h>
#include <arrow/io/interfaces.h>
#include <parquet/arrow/writer.h>
#include <parquet/properties.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/civil_time.h"
#include "base/file.h"
#include "base/random.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "sample_io/generator_truth.h"
#include "sample_io/planted_conversion.h"
#include "sample_io/planted_model.h"
#include "sample_io/planted_sequence.h"

namespace starling {
namespace {

constexpr char kTruthFile[] = "TRUTH.json";
constexpr int64_t kDaySeconds = 86400;
const absl::CivilDay kFirstDay(2024, 1, 1);

// One day's file: rows [first, first + rows) of the planted world.
struct Day {
  bool eval = false;
  int day = 0;  // From kFirstDay.
  int64_t first = 0, rows = 0;
};

// Arrow writes through base/file, so that faults can be injected; the Status
// that a write failed with is kept, since Arrow's cannot carry it.
class FileStream : public arrow::io::OutputStream {
 public:
  explicit FileStream(std::unique_ptr<WritableFile> file) : file_(std::move(file)) {}
  arrow::Status Close() override {
    closed_ = true;
    return Keep(file_->Close());
  }
  bool closed() const override { return closed_; }
  arrow::Result<int64_t> Tell() const override { return written_; }
  arrow::Status Write(const void* data, int64_t bytes) override {
    written_ += bytes;
    return Keep(file_->Append({static_cast<const char*>(data), static_cast<size_t>(bytes)}));
  }
  const absl::Status& status() const { return status_; }

 private:
  arrow::Status Keep(absl::Status status) {
    if (status.ok()) return arrow::Status::OK();
    status_.Update(status);
    return arrow::Status::IOError(std::string(status.message()));
  }

  const std::unique_ptr<WritableFile> file_;
  absl::Status status_;
  int64_t written_ = 0;
  bool closed_ = false;
};

std::shared_ptr<arrow::DataType> TimeType() { return arrow::timestamp(arrow::TimeUnit::MILLI); }
void AddNumbers(int first, int end, arrow::FieldVector* fields) {
  for (int i = first; i < end; ++i) {
    fields->push_back(arrow::field(absl::StrCat("I", i + 1), arrow::float64()));
  }
}
void AddIds(int first, int end, arrow::FieldVector* fields) {
  for (int i = first; i < end; ++i) {
    fields->push_back(arrow::field(absl::StrCat("C", i + 1), arrow::int64()));
  }
}

std::shared_ptr<arrow::Field> Conversion() {
  return arrow::field("conversion", arrow::int32(), false);
}
void AddTarget(arrow::FieldVector* fields) {
  for (const char* name : {"item", "category"}) {
    fields->push_back(arrow::field(name, arrow::int64(), false));
  }
}
void AddSequence(arrow::FieldVector* fields) {
  for (const char* name : {"seen_item", "seen_category"}) {
    fields->push_back(arrow::field(name, arrow::list(arrow::int64()), false));
  }
}

std::shared_ptr<arrow::Schema> FlatSchema(const GeneratorOptions& options) {
  arrow::FieldVector fields = {arrow::field("click", arrow::int32(), false),
                               arrow::field("ts", TimeType(), false),
                               arrow::field("user", arrow::int64(), false)};
  if (options.impressions > 1) {
    fields.push_back(arrow::field("request", arrow::int64(), false));
  }
  AddNumbers(0, PlantedModel::kNumbers, &fields);
  AddIds(0, PlantedModel::kIds, &fields);
  if (options.conversions) fields.push_back(Conversion());
  if (options.sequence > 0) AddSequence(&fields);
  if (options.sequence > 0) AddTarget(&fields);
  return arrow::schema(fields);
}

std::shared_ptr<arrow::Schema> NestedSchema(const GeneratorOptions& options) {
  arrow::FieldVector user = {arrow::field("id", arrow::int64(), false)};
  AddNumbers(0, PlantedModel::kUserNumbers, &user);
  AddIds(0, PlantedModel::kUserIds, &user);
  if (options.sequence > 0) AddSequence(&user);
  arrow::FieldVector impression = {arrow::field("click", arrow::int32(), false),
                                   arrow::field("ts", TimeType(), false)};
  AddNumbers(PlantedModel::kUserNumbers, PlantedModel::kNumbers, &impression);
  AddIds(PlantedModel::kUserIds, PlantedModel::kIds, &impression);
  if (options.conversions) impression.push_back(Conversion());
  if (options.sequence > 0) AddTarget(&impression);
  return arrow::schema({arrow::field("request", arrow::int64(), false),
                        arrow::field("user", arrow::struct_(user), false),
                        arrow::field("impressions", arrow::list(arrow::struct_(impression)))});
}

// One row of the planted world, and what the log adds to it.
struct LoggedRow {
  PlantedModel::Row row;
  PlantedSequence::Row sequence;
  bool conversion = false;
  int64_t user = 0;
  int64_t seconds = 0;
  int64_t request = 0;
  bool first = true;  // Of its request.
};

// Columns of one row group, in the order of the schema.
class GroupBuilder {
 public:
  GroupBuilder(std::unique_ptr<arrow::RecordBatchBuilder> columns, const GeneratorOptions& options)
      : columns_(std::move(columns)),
        requests_(options.impressions > 1),
        conversions_(options.conversions),
        sequence_(options.sequence > 0) {}
  virtual ~GroupBuilder() = default;
  virtual arrow::Status Append(const LoggedRow& row) = 0;
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> Finish() { return columns_->Flush(); }

 protected:
  const std::unique_ptr<arrow::RecordBatchBuilder> columns_;
  const bool requests_, conversions_, sequence_;
};

using Builder = arrow::ArrayBuilder;

arrow::Status AppendInt(int64_t value, Builder* builder) {
  return static_cast<arrow::Int64Builder*>(builder)->Append(value);
}
arrow::Status AppendBool(bool value, Builder* builder) {
  return static_cast<arrow::Int32Builder*>(builder)->Append(value);
}
arrow::Status AppendClickAndTime(const LoggedRow& row, Builder* click, Builder* ts) {
  ARROW_RETURN_NOT_OK(AppendBool(row.row.click, click));
  return static_cast<arrow::TimestampBuilder*>(ts)->Append(row.seconds * 1000);
}

// Numbers [numbers, numbers_end) and ids [ids, ids_end) go to the builders from `next` on.
arrow::Status AppendFeatures(const PlantedModel::Row& row, int numbers, int numbers_end, int ids,
                             int ids_end, const std::function<Builder*()>& next) {
  for (int i = numbers; i < numbers_end; ++i) {
    auto* builder = static_cast<arrow::DoubleBuilder*>(next());
    ARROW_RETURN_NOT_OK(row.number_null[i] ? builder->AppendNull()
                                           : builder->Append(row.numbers[i]));
  }
  for (int i = ids; i < ids_end; ++i) {
    auto* builder = static_cast<arrow::Int64Builder*>(next());
    ARROW_RETURN_NOT_OK(row.ids[i] < 0 ? builder->AppendNull() : builder->Append(row.ids[i]));
  }
  return arrow::Status::OK();
}

arrow::Status AppendTarget(const PlantedSequence::Row& row, const std::function<Builder*()>& next) {
  ARROW_RETURN_NOT_OK(AppendInt(row.item, next()));
  return AppendInt(PlantedSequence::CategoryOf(row.item), next());
}
arrow::Status AppendSequence(const PlantedSequence::Row& row,
                             const std::function<Builder*()>& next) {
  auto* items = static_cast<arrow::ListBuilder*>(next());
  auto* categories = static_cast<arrow::ListBuilder*>(next());
  ARROW_RETURN_NOT_OK(items->Append());
  ARROW_RETURN_NOT_OK(categories->Append());
  for (int64_t item : row.seen_items) {
    ARROW_RETURN_NOT_OK(AppendInt(item, items->value_builder()));
    ARROW_RETURN_NOT_OK(AppendInt(PlantedSequence::CategoryOf(item), categories->value_builder()));
  }
  return arrow::Status::OK();
}

class FlatBuilder : public GroupBuilder {
 public:
  using GroupBuilder::GroupBuilder;

  arrow::Status Append(const LoggedRow& row) override {
    int at = 0;
    auto next = [&] { return columns_->GetField(at++); };
    Builder* click = next();
    ARROW_RETURN_NOT_OK(AppendClickAndTime(row, click, next()));
    ARROW_RETURN_NOT_OK(AppendInt(row.user, next()));
    if (requests_) ARROW_RETURN_NOT_OK(AppendInt(row.request, next()));
    ARROW_RETURN_NOT_OK(
        AppendFeatures(row.row, 0, PlantedModel::kNumbers, 0, PlantedModel::kIds, next));
    if (conversions_) ARROW_RETURN_NOT_OK(AppendBool(row.conversion, next()));
    if (!sequence_) return arrow::Status::OK();
    ARROW_RETURN_NOT_OK(AppendSequence(row.sequence, next));
    return AppendTarget(row.sequence, next);
  }
};

class NestedBuilder : public GroupBuilder {
 public:
  using GroupBuilder::GroupBuilder;

  arrow::Status Append(const LoggedRow& row) override {
    auto* user = columns_->GetFieldAs<arrow::StructBuilder>(1);
    auto* list = columns_->GetFieldAs<arrow::ListBuilder>(2);
    auto* impression = static_cast<arrow::StructBuilder*>(list->value_builder());
    if (row.first) {
      ARROW_RETURN_NOT_OK(AppendInt(row.request, columns_->GetField(0)));
      ARROW_RETURN_NOT_OK(user->Append());
      ARROW_RETURN_NOT_OK(AppendInt(row.user, user->field_builder(0)));
      int at = 1;
      ARROW_RETURN_NOT_OK(AppendFeatures(row.row, 0, PlantedModel::kUserNumbers, 0,
                                         PlantedModel::kUserIds,
                                         [&] { return user->field_builder(at++); }));
      if (sequence_) {
        ARROW_RETURN_NOT_OK(
            AppendSequence(row.sequence, [&] { return user->field_builder(at++); }));
      }
      ARROW_RETURN_NOT_OK(list->Append());
    }
    ARROW_RETURN_NOT_OK(impression->Append());
    ARROW_RETURN_NOT_OK(
        AppendClickAndTime(row, impression->field_builder(0), impression->field_builder(1)));
    int at = 2;
    auto next = [&] { return impression->field_builder(at++); };
    ARROW_RETURN_NOT_OK(AppendFeatures(row.row, PlantedModel::kUserNumbers, PlantedModel::kNumbers,
                                       PlantedModel::kUserIds, PlantedModel::kIds, next));
    if (conversions_) ARROW_RETURN_NOT_OK(AppendBool(row.conversion, next()));
    return sequence_ ? AppendTarget(row.sequence, next) : arrow::Status::OK();
  }
};

class Writer {
 public:
  Writer(const GeneratorOptions& options, std::string root)
      : options_(options),
        root_(std::move(root)),
        model_(options.seed),
        sequence_(options.seed, options.sequence),
        conversion_(options.seed),
        user_key_(Mix64(options.seed) + 1),
        time_key_(Mix64(options.seed) + 2),
        users_(std::max<int64_t>(100, options.rows / 50)) {}

  // `sums` null: they are known already.
  absl::Status WriteDay(const Day& day, bool nested, DayTruth* sums) const {
    const std::string ds = absl::FormatCivilTime(kFirstDay + day.day);  // 2024-01-01
    const std::string dir =
        absl::StrCat(root_, day.eval ? "/eval" : "/train", nested ? "_nested" : "",
                     "/ds=", ds.substr(0, 4), ds.substr(5, 2), ds.substr(8, 2));
    RETURN_IF_ERROR(MakeDirs(dir));
    const std::string path = JoinPath(dir, "part-0000.parquet");
    ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, CreateFile(path));
    auto stream = std::make_shared<FileStream>(std::move(file));
    arrow::Status status = WriteRows(day, nested, stream, sums);
    if (!stream->status().ok()) return stream->status();
    if (!status.ok()) return absl::InternalError(absl::StrCat(path, ": ", status.ToString()));
    return absl::OkStatus();
  }

 private:
  arrow::Result<std::unique_ptr<GroupBuilder>> NewBuilder(
      const std::shared_ptr<arrow::Schema>& schema, bool nested) const {
    ARROW_ASSIGN_OR_RAISE(auto columns,
                          arrow::RecordBatchBuilder::Make(schema, arrow::default_memory_pool()));
    if (nested) return std::make_unique<NestedBuilder>(std::move(columns), options_);
    return std::make_unique<FlatBuilder>(std::move(columns), options_);
  }

  void Fill(const Day& day, int64_t i, LoggedRow* out) const {
    const int64_t row = day.first + i, k = options_.impressions;
    const int64_t user = row - i % k;  // The request's first row.
    if (options_.sequence > 0) sequence_.Fill(row, user, &out->sequence);
    model_.Fill(row, user, out->sequence.logit, &out->row);
    if (options_.conversions) out->conversion = conversion_.Converts(row, out->row);
    // Squared: some users are met often, most seldom.
    const double u = RandomUniform(user_key_, user);
    out->user = static_cast<int64_t>(u * u * static_cast<double>(users_));
    out->seconds = TimeOf(day, i);
    out->request = user;
    out->first = row == user;
  }

  arrow::Status WriteRows(const Day& day, bool nested, const std::shared_ptr<FileStream>& stream,
                          DayTruth* sums) const {
    // A request stands in one row group.
    const int64_t group_rows = (options_.row_group_rows + options_.impressions - 1) /
                               options_.impressions * options_.impressions;
    auto properties = parquet::WriterProperties::Builder()
                          .compression(parquet::Compression::SNAPPY)
                          ->max_row_group_length(group_rows)
                          ->build();
    const auto schema = nested ? NestedSchema(options_) : FlatSchema(options_);
    ARROW_ASSIGN_OR_RAISE(
        auto writer, parquet::arrow::FileWriter::Open(*schema, arrow::default_memory_pool(), stream,
                                                      properties));
    ARROW_ASSIGN_OR_RAISE(auto builder, NewBuilder(schema, nested));
    LoggedRow row;
    for (int64_t i = 0; i < day.rows;) {
      const int64_t end = std::min(day.rows, i + group_rows);
      for (; i < end; ++i) {
        Fill(day, i, &row);
        if (sums != nullptr) AddTruth(row, sums);
        ARROW_RETURN_NOT_OK(builder->Append(row));
      }
      ARROW_ASSIGN_OR_RAISE(auto batch, builder->Finish());
      ARROW_ASSIGN_OR_RAISE(auto table, arrow::Table::FromRecordBatches({batch}));
      ARROW_RETURN_NOT_OK(writer->WriteTable(*table, group_rows));
    }
    ARROW_RETURN_NOT_OK(writer->Close());
    return stream->Close();
  }

  void AddTruth(const LoggedRow& row, DayTruth* sums) const {
    sums->click.Add(row.row.probability, row.row.click);
    if (!options_.conversions) return;
    sums->conversion.Add(row.row.probability * conversion_.Probability(row.row), row.conversion);
  }

  // Seconds; ascends with i through the whole day.
  int64_t TimeOf(const Day& day, int64_t i) const {
    double share = (i + RandomUniform(time_key_, day.first + i)) / static_cast<double>(day.rows);
    int64_t start = (kFirstDay - absl::CivilDay(1970, 1, 1) + day.day) * kDaySeconds;
    return start + static_cast<int64_t>(share * kDaySeconds);
  }

  const GeneratorOptions& options_;
  const std::string root_;
  const PlantedModel model_;
  const PlantedSequence sequence_;
  const PlantedConversion conversion_;
  const uint64_t user_key_, time_key_;
  const int64_t users_;
};

std::vector<Day> DaysOf(const GeneratorOptions& options) {
  std::vector<Day> days;
  int64_t first = 0;
  auto add = [&](bool eval, int count, int64_t rows) {
    for (int d = 0; d < count; ++d) {
      int64_t n = rows * (d + 1) / count - rows * d / count;
      if (n == 0) continue;
      days.push_back({eval, eval ? options.days + d : d, first, n});
      first += n;
    }
  };
  add(false, options.days, options.rows);
  add(true, options.eval_days, options.eval_rows);
  return days;
}

absl::Status CheckOptions(const GeneratorOptions& o) {
  if (o.out.empty()) return absl::InvalidArgumentError("--out: where shall the data go?");
  if (o.rows < 1) return absl::InvalidArgumentError("--rows must be at least 1");
  if (o.eval_rows < 0) return absl::InvalidArgumentError("--eval_rows must be at least 0");
  for (const auto& [flag, value, least, most] :
       {std::tuple("--days", o.days, 1, 3650), std::tuple("--impressions", o.impressions, 1, 1000),
        std::tuple("--sequence", o.sequence, 0, 1000)}) {
    if (value >= least && value <= most) continue;
    return absl::InvalidArgumentError(absl::StrCat(flag, " must be in ", least, "..", most));
  }
  if (!PathExists(o.out)) return absl::OkStatus();
  if (!o.overwrite) {
    return absl::AlreadyExistsError(
        absl::StrCat(o.out, " exists; choose another --out, or replace it with --overwrite"));
  }
  ASSIGN_OR_RETURN(std::vector<std::string> names, ListDir(o.out));
  if (names.empty() || PathExists(JoinPath(o.out, kTruthFile))) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat(o.out, " holds no ", kTruthFile,
                                               ", so `generate` did not write it: not replaced"));
}

// Writes everything below `root` and sums up the truth.
absl::StatusOr<GeneratorReport> WriteAll(const GeneratorOptions& options, const std::string& root) {
  const std::vector<Day> days = DaysOf(options);
  const Writer writer(options, root);
  absl::Mutex mu;
  DayTruth train, eval;                        // Guarded by mu while the pool runs.
  std::vector<TruthLoss> losses(days.size());  // Summed in order: no thread changes a bit.
  std::vector<absl::Status> statuses(days.size());
  ThreadPool pool(options.threads);
  pool.ParallelFor(static_cast<int>(days.size()), [&](int d) {
    DayTruth sums;
    statuses[d] = writer.WriteDay(days[d], /*nested=*/false, &sums);
    if (options.impressions > 1) {
      statuses[d].Update(writer.WriteDay(days[d], /*nested=*/true, nullptr));
    }
    losses[d] = sums.TakeLoss();
    absl::MutexLock lock(&mu);
    (days[d].eval ? eval : train).Add(sums);
  });
  for (size_t d = 0; d < days.size(); ++d) {
    RETURN_IF_ERROR(statuses[d]);
    (days[d].eval ? eval : train).AddLoss(losses[d]);
  }
  GeneratorReport report{train.click.Truth(), eval.click.Truth(), train.conversion.Truth(),
                         eval.conversion.Truth(), ""};
  report.json = ReportJson(options, report);
  RETURN_IF_ERROR(WriteFileAtomically(JoinPath(root, kTruthFile), report.json + "\n"));
  return report;
}

// Puts `from` where `to` is, or was.
absl::Status Replace(const std::string& from, const std::string& to) {
  if (!PathExists(to)) return RenamePath(from, to);
  const std::string old = to + ".old";
  RETURN_IF_ERROR(RenamePath(to, old));
  RETURN_IF_ERROR(RenamePath(from, to));
  return RemoveAll(old);
}

}  // namespace

absl::StatusOr<GeneratorReport> Generate(const GeneratorOptions& given) {
  GeneratorOptions options = given;
  while (options.out.size() > 1 && options.out.back() == '/') options.out.pop_back();
  RETURN_IF_ERROR(CheckOptions(options));
  const std::string partial = options.out + ".partial";
  RETURN_IF_ERROR(RemoveAll(partial));
  absl::StatusOr<GeneratorReport> report = WriteAll(options, partial);
  absl::Status status = report.status();
  if (status.ok()) status = Replace(partial, options.out);
  if (status.ok()) return report;
  RemoveAll(partial).IgnoreError();
  return status;
}

}  // namespace starling
