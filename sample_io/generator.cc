#include "sample_io/generator.h"

#include <arrow/api.h>
#include <arrow/io/interfaces.h>
#include <parquet/arrow/writer.h>
#include <parquet/properties.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/civil_time.h"
#include "base/file.h"
#include "base/random.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "sample_io/planted_model.h"

namespace starling {
namespace {

constexpr char kTruthFile[] = "TRUTH.json";
constexpr int kBins = 1 << 16;  // Of probability, for AUC: ties inside a bin count half.
constexpr int64_t kDaySeconds = 86400;
const absl::CivilDay kFirstDay(2024, 1, 1);

// One day's file: rows [first, first + rows) of the planted world.
struct Day {
  bool eval = false;
  int day = 0;  // From kFirstDay.
  int64_t first = 0, rows = 0;
};

// Sums over the rows of one day, or of a part.
struct Sums {
  std::vector<int64_t> clicks = std::vector<int64_t>(kBins);
  std::vector<int64_t> others = std::vector<int64_t>(kBins);
  double logloss = 0;

  void Add(double probability, bool click) {
    ++(click ? clicks : others)[std::min(kBins - 1, static_cast<int>(probability * kBins))];
    logloss -= std::log(click ? probability : 1 - probability);
  }
  void Add(const Sums& other) {
    for (int b = 0; b < kBins; ++b) clicks[b] += other.clicks[b];
    for (int b = 0; b < kBins; ++b) others[b] += other.others[b];
    logloss += other.logloss;
  }
};

PartTruth TruthOf(const Sums& sums) {
  PartTruth truth;
  double below = 0, wins = 0;  // Non-clicks under this bin; pairs in the right order.
  for (int b = 0; b < kBins; ++b) {
    wins += static_cast<double>(sums.clicks[b]) * (below + 0.5 * sums.others[b]);
    below += sums.others[b];
    truth.clicks += sums.clicks[b];
    truth.rows += sums.clicks[b] + sums.others[b];
  }
  if (truth.clicks > 0 && below > 0) truth.auc = wins / (truth.clicks * below);
  if (truth.rows > 0) truth.logloss = sums.logloss / truth.rows;
  return truth;
}

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

std::shared_ptr<arrow::Schema> MakeSchema() {
  arrow::FieldVector fields = {arrow::field("click", arrow::int32(), false),
                               arrow::field("ts", arrow::timestamp(arrow::TimeUnit::MILLI), false),
                               arrow::field("user", arrow::int64(), false)};
  for (int i = 1; i <= PlantedModel::kNumbers; ++i) {
    fields.push_back(arrow::field(absl::StrCat("I", i), arrow::float64()));
  }
  for (int i = 1; i <= PlantedModel::kIds; ++i) {
    fields.push_back(arrow::field(absl::StrCat("C", i), arrow::int64()));
  }
  return arrow::schema(fields);
}

// Columns of one row group, in the order of the schema.
class GroupBuilder {
 public:
  explicit GroupBuilder(uint64_t seed, int64_t users)
      : user_key_(Mix64(seed) + 1), time_key_(Mix64(seed) + 2), users_(users) {}

  arrow::Status Append(const Day& day, int64_t i, const PlantedModel::Row& row) {
    ARROW_RETURN_NOT_OK(click_.Append(row.click));
    ARROW_RETURN_NOT_OK(ts_.Append(TimeOf(day, i) * 1000));
    // Squared: some users are met often, most seldom.
    double u = RandomUniform(user_key_, day.first + i);
    ARROW_RETURN_NOT_OK(user_.Append(static_cast<int64_t>(u * u * users_)));
    for (int k = 0; k < PlantedModel::kNumbers; ++k) {
      ARROW_RETURN_NOT_OK(row.number_null[k] ? numbers_[k].AppendNull()
                                             : numbers_[k].Append(row.numbers[k]));
    }
    for (int k = 0; k < PlantedModel::kIds; ++k) {
      ARROW_RETURN_NOT_OK(row.ids[k] < 0 ? ids_[k].AppendNull() : ids_[k].Append(row.ids[k]));
    }
    return arrow::Status::OK();
  }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> Finish(
      const std::shared_ptr<arrow::Schema>& schema) {
    const int64_t rows = click_.length();
    arrow::ArrayVector arrays(schema->num_fields());
    auto out = arrays.begin();
    ARROW_RETURN_NOT_OK(click_.Finish(&*out++));
    ARROW_RETURN_NOT_OK(ts_.Finish(&*out++));
    ARROW_RETURN_NOT_OK(user_.Finish(&*out++));
    for (auto& builder : numbers_) ARROW_RETURN_NOT_OK(builder.Finish(&*out++));
    for (auto& builder : ids_) ARROW_RETURN_NOT_OK(builder.Finish(&*out++));
    return arrow::RecordBatch::Make(schema, rows, std::move(arrays));
  }

 private:
  // Seconds; ascends with i through the whole day.
  int64_t TimeOf(const Day& day, int64_t i) const {
    double share = (i + RandomUniform(time_key_, day.first + i)) / static_cast<double>(day.rows);
    int64_t start = (kFirstDay - absl::CivilDay(1970, 1, 1) + day.day) * kDaySeconds;
    return start + static_cast<int64_t>(share * kDaySeconds);
  }

  const uint64_t user_key_, time_key_;
  const int64_t users_;
  arrow::Int32Builder click_;
  arrow::TimestampBuilder ts_{arrow::timestamp(arrow::TimeUnit::MILLI),
                              arrow::default_memory_pool()};
  arrow::Int64Builder user_;
  std::array<arrow::DoubleBuilder, PlantedModel::kNumbers> numbers_;
  std::array<arrow::Int64Builder, PlantedModel::kIds> ids_;
};

class Writer {
 public:
  Writer(const GeneratorOptions& options, std::string root)
      : options_(options), root_(std::move(root)), model_(options.seed), schema_(MakeSchema()) {}

  absl::Status WriteDay(const Day& day, Sums* sums) const {
    const std::string ds = absl::FormatCivilTime(kFirstDay + day.day);  // 2024-01-01
    const std::string dir =
        absl::StrCat(root_, day.eval ? "/eval/ds=" : "/train/ds=", ds.substr(0, 4), ds.substr(5, 2),
                     ds.substr(8, 2));
    RETURN_IF_ERROR(MakeDirs(dir));
    const std::string path = JoinPath(dir, "part-0000.parquet");
    ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, CreateFile(path));
    auto stream = std::make_shared<FileStream>(std::move(file));
    arrow::Status status = WriteRows(day, stream, sums);
    if (!stream->status().ok()) return stream->status();
    if (!status.ok()) return absl::InternalError(absl::StrCat(path, ": ", status.ToString()));
    return absl::OkStatus();
  }

 private:
  arrow::Status WriteRows(const Day& day, const std::shared_ptr<FileStream>& stream,
                          Sums* sums) const {
    auto properties = parquet::WriterProperties::Builder()
                          .compression(parquet::Compression::SNAPPY)
                          ->max_row_group_length(options_.row_group_rows)
                          ->build();
    ARROW_ASSIGN_OR_RAISE(auto writer,
                          parquet::arrow::FileWriter::Open(*schema_, arrow::default_memory_pool(),
                                                           stream, properties));
    GroupBuilder builder(options_.seed, std::max<int64_t>(100, options_.rows / 50));
    PlantedModel::Row row;
    for (int64_t i = 0; i < day.rows;) {
      const int64_t end = std::min(day.rows, i + options_.row_group_rows);
      for (; i < end; ++i) {
        model_.Fill(day.first + i, &row);
        sums->Add(row.probability, row.click);
        ARROW_RETURN_NOT_OK(builder.Append(day, i, row));
      }
      ARROW_ASSIGN_OR_RAISE(auto batch, builder.Finish(schema_));
      ARROW_ASSIGN_OR_RAISE(auto table, arrow::Table::FromRecordBatches({batch}));
      ARROW_RETURN_NOT_OK(writer->WriteTable(*table, options_.row_group_rows));
    }
    ARROW_RETURN_NOT_OK(writer->Close());
    return stream->Close();
  }

  const GeneratorOptions& options_;
  const std::string root_;
  const PlantedModel model_;
  const std::shared_ptr<arrow::Schema> schema_;
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
  if (o.days < 1 || o.days > 3650) return absl::InvalidArgumentError("--days must be in 1..3650");
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

std::string ReportJson(const GeneratorOptions& options, const GeneratorReport& report) {
  auto part = [](const PartTruth& t) {
    return nlohmann::ordered_json{
        {"rows", t.rows}, {"clicks", t.clicks}, {"best_auc", t.auc}, {"best_logloss", t.logloss}};
  };
  return nlohmann::ordered_json{{"seed", options.seed},
                                {"days", options.days},
                                {"train", part(report.train)},
                                {"eval", part(report.eval)}}
      .dump();
}

// Writes everything below `root` and sums up the truth.
absl::StatusOr<GeneratorReport> WriteAll(const GeneratorOptions& options, const std::string& root) {
  const std::vector<Day> days = DaysOf(options);
  const Writer writer(options, root);
  absl::Mutex mu;
  Sums train, eval;                          // Guarded by mu while the pool runs.
  std::vector<double> logloss(days.size());  // Summed in order: no thread changes a bit.
  std::vector<absl::Status> statuses(days.size());
  ThreadPool pool(options.threads);
  pool.ParallelFor(static_cast<int>(days.size()), [&](int d) {
    Sums sums;
    statuses[d] = writer.WriteDay(days[d], &sums);
    std::swap(logloss[d], sums.logloss);
    absl::MutexLock lock(&mu);
    (days[d].eval ? eval : train).Add(sums);
  });
  for (size_t d = 0; d < days.size(); ++d) {
    RETURN_IF_ERROR(statuses[d]);
    (days[d].eval ? eval : train).logloss += logloss[d];
  }
  GeneratorReport report{TruthOf(train), TruthOf(eval), ""};
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
