#include "sample_io/generator.h"

#include <arrow/api.h>
#include <arrow/io/interfaces.h>
#include <parquet/arrow/writer.h>
#include <parquet/properties.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/civil_time.h"
#include "base/file.h"
#include "base/random.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "sample_io/generator_columns.h"
#include "sample_io/generator_truth.h"
#include "sample_io/planted_conversion.h"

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

class Writer {
 public:
  Writer(const GeneratorOptions& options, const std::optional<PlantedModel::Laws>& laws,
         std::string root)
      : options_(options),
        root_(std::move(root)),
        laws_(laws),
        model_(options.seed, laws),
        slots_(options.shape == DataShape::kIndustrial
                   ? std::make_unique<PlantedSlots>(options.seed)
                   : nullptr),
        sequence_(options.seed, options.sequence),
        conversion_(options.seed),
        user_key_(Mix64(options.seed) + 1),
        time_key_(Mix64(options.seed) + 2),
        users_(std::max<int64_t>(100, options.rows / 50)) {}

  std::vector<FieldShares> Shares() const {
    const int batches = std::min<int64_t>(8, options_.rows / PlantedModel::kLawBatch);
    if (!laws_.has_value() || options_.impressions > 1 || batches == 0) return {};
    std::vector<FieldShares> shares;
    for (double written : model_.UniqueShares(batches)) {
      shares.push_back({written, (*laws_)[shares.size()].unique_share});
    }
    return shares;
  }

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
  void Fill(const Day& day, int64_t i, LoggedRow* out) const {
    const int64_t row = day.first + i, k = options_.impressions;
    const int64_t user = row - i % k;  // The request's first row.
    if (options_.sequence > 0) sequence_.Fill(row, user, &out->sequence);
    if (slots_ != nullptr) {
      slots_->Fill(row, &out->slots);
      out->row.probability = out->slots.probability;
      out->row.click = out->slots.click;
    } else {
      model_.Fill(row, user, out->sequence.logit, &out->row);
    }
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
    ARROW_ASSIGN_OR_RAISE(auto builder, GroupBuilder::Make(options_, nested));
    ARROW_ASSIGN_OR_RAISE(
        auto writer, parquet::arrow::FileWriter::Open(
                         *builder->schema(), arrow::default_memory_pool(), stream, properties));
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
  const std::optional<PlantedModel::Laws> laws_;
  const PlantedModel model_;
  const std::unique_ptr<PlantedSlots> slots_;  // Of the industrial shape, instead of model_.
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
  if (o.shape == DataShape::kIndustrial && (o.impressions > 1 || o.sequence > 0 || o.conversions)) {
    return absl::InvalidArgumentError(
        "--shape industrial has no --impressions, --sequence and --conversions");
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

// A line a field: the share of unique ids, and the exponent.
absl::StatusOr<std::optional<PlantedModel::Laws>> LawsOf(const GeneratorOptions& options) {
  if (options.shape != DataShape::kCriteo) return std::nullopt;
  PlantedModel::Laws laws = PlantedModel::OwnLaws();
  if (options.laws.empty()) return laws;
  ASSIGN_OR_RETURN(const std::string text, ReadFile(options.laws));
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  for (size_t i = 0; i < std::max(lines.size(), laws.size()); ++i) {
    const std::vector<std::string> parts =
        absl::StrSplit(i < lines.size() ? lines[i] : "", ' ', absl::SkipEmpty());
    PlantedModel::Law law;
    const bool good = i < laws.size() && parts.size() == 2 &&
                      absl::SimpleAtod(parts[0], &law.unique_share) && law.unique_share > 0 &&
                      law.unique_share <= 1 && absl::SimpleAtod(parts[1], &law.exponent) &&
                      law.exponent > 0 && law.exponent < 100 && law.exponent != 1;
    if (!good) {
      return absl::InvalidArgumentError(absl::StrCat(options.laws, ":", i + 1, ": expected ",
                                                     laws.size(),
                                                     " lines of a share of unique ids in 0..1 and "
                                                     "Zipf's exponent, not 1, such as `0.25 1.3`"));
    }
    laws[i] = law;
  }
  return laws;
}

// Writes everything below `root` and sums up the truth.
absl::StatusOr<GeneratorReport> WriteAll(const GeneratorOptions& options, const std::string& root) {
  const std::vector<Day> days = DaysOf(options);
  ASSIGN_OR_RETURN(const std::optional<PlantedModel::Laws> laws, LawsOf(options));
  const Writer writer(options, laws, root);
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
  GeneratorReport report{train.click.Truth(),     eval.click.Truth(), train.conversion.Truth(),
                         eval.conversion.Truth(), writer.Shares(),    ""};
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
  // A row of some 480 ids is 4 KB: a row group of the usual size would be a quarter of a GB.
  if (options.shape == DataShape::kIndustrial)
    options.row_group_rows = (options.row_group_rows + 3) / 4;
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
