// starling predict: the score of every row of a data set.
#include <gflags/gflags.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <deque>
#include <future>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "base/yaml_proto.h"
#include "sample_io/feature_compiler.h"
#include "sample_io/requests.h"
#include "sample_io/source.h"
#include "serving/predictor.h"
#include "serving/score_writer.h"
#include "tools/flags.h"
#include "tools/job.h"
#include "tools/verbs.h"

DEFINE_string(keep, "", "columns of the data to copy to the output, separated by commas");
DEFINE_double(bad_rows_max, 0.001, "share of bad rows above which it fails; fewer score null");

namespace starling {
namespace {

// Rows before the share of bad ones is judged while there are more to come.
constexpr int64_t kRowsBeforeJudging = 1000;

struct ScoredSplit {
  ColumnBatch columns;
  std::vector<float> scores;
  std::vector<BadRow> bad;
};

struct Totals {
  int64_t rows = 0;
  int64_t bad = 0;
  std::string first_bad;
};

absl::Status CheckFlags() {
  if (FLAGS_bundle.empty()) return absl::InvalidArgumentError("--bundle is missing: which model?");
  if (FLAGS_data.empty()) return absl::InvalidArgumentError("--data is missing: which rows?");
  if (FLAGS_out.empty()) {
    return absl::InvalidArgumentError("--out is missing: FILE.parquet, FILE.csv or - for stdout");
  }
  if (FLAGS_out == "-" && FLAGS_json) {
    return absl::InvalidArgumentError("--json and --out - would both write to stdout");
  }
  return absl::OkStatus();
}

// The kept columns are there, and have no name of ours.
absl::Status CheckKeep(const std::vector<std::string>& keep,
                       const std::vector<std::string>& outputs,
                       const std::vector<std::string>& in_data) {
  for (auto name = keep.begin(); name != keep.end(); ++name) {
    const bool ours =
        *name == "row" || std::find(outputs.begin(), outputs.end(), *name) != outputs.end();
    if (ours || std::find(keep.begin(), name, *name) != name) {
      return absl::InvalidArgumentError(
          absl::StrCat("--keep ", *name, ": the output would have two columns of that name"));
    }
    if (std::find(in_data.begin(), in_data.end(), *name) == in_data.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--keep ", *name, ": no such column", DidYouMean(*name, in_data)));
    }
  }
  return absl::OkStatus();
}

// What to read: the features' columns, then the kept ones that are no feature.
absl::StatusOr<std::vector<std::string>> ColumnsToRead(const Predictor& predictor,
                                                       const std::vector<std::string>& keep,
                                                       const SampleSource& source) {
  std::vector<std::string> in_data;
  for (const ColumnSchema& column : source.schema()) in_data.push_back(column.name);
  RETURN_IF_ERROR(CheckKeep(keep, predictor.outputs(), in_data));
  std::vector<std::string> columns = ColumnsOf(predictor.bundle().spec().features, false);
  for (const std::string& name : columns) {
    if (std::find(in_data.begin(), in_data.end(), name) == in_data.end()) {
      return absl::FailedPreconditionError(absl::StrCat(FLAGS_data, ": the model reads column \"",
                                                        name, "\", which is not there",
                                                        DidYouMean(name, in_data)));
    }
  }
  for (const std::string& name : keep) {
    if (std::find(columns.begin(), columns.end(), name) == columns.end()) columns.push_back(name);
  }
  return columns;
}

absl::Status Judge(const Totals& totals, bool more_to_come) {
  bool too_early = more_to_come && totals.rows < kRowsBeforeJudging;
  if (too_early ||
      static_cast<double>(totals.bad) <= FLAGS_bad_rows_max * static_cast<double>(totals.rows)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrFormat("%d of %d rows are bad, more than --bad_rows_max=%g allows; the first: %s",
                      totals.bad, totals.rows, FLAGS_bad_rows_max, totals.first_bad));
}

// Scores splits side by side and writes them in order. At most `threads` splits
// are in memory.
absl::Status ScoreAll(const SampleSource& source, const Predictor& predictor,
                      const std::vector<std::string>& columns, ScoreWriter* writer,
                      Totals* totals) {
  auto score = [&](int split) -> absl::StatusOr<ScoredSplit> {
    ScoredSplit out;
    ASSIGN_OR_RETURN(out.columns, source.Read(split, columns));
    if (out.columns.rows == 0) return out;  // None matches --where.
    RETURN_IF_ERROR(FormRequests({}, &out.columns));
    FlattenRequests(&out.columns);  // A score an impression.
    ASSIGN_OR_RETURN(out.scores, predictor.Predict(out.columns, &out.bad));
    return out;
  };
  const int splits = static_cast<int>(source.splits().size());
  const int threads =
      FLAGS_threads > 0 ? FLAGS_threads : static_cast<int>(std::thread::hardware_concurrency());
  std::deque<std::future<absl::StatusOr<ScoredSplit>>> ahead;
  int next = 0;
  for (int done = 0; done < splits; ++done) {
    for (; next < splits && next < done + std::max(1, threads); ++next) {
      ahead.push_back(std::async(std::launch::async, score, next));
    }
    ASSIGN_OR_RETURN(ScoredSplit scored, ahead.front().get());
    ahead.pop_front();
    if (StopRequested()->load()) return absl::CancelledError("stopped; nothing was written");
    const Split& split = source.splits()[done];
    if (totals->bad == 0 && !scored.bad.empty()) {
      const BadRow& first = scored.bad.front();
      const std::vector<int64_t>& part_rows = scored.columns.part_rows;
      const int64_t row = split.begin + (part_rows.empty() ? first.row : part_rows[first.row]);
      totals->first_bad =
          absl::StrCat(split.Place(), ": row ", row, ": column ", first.column, ": ", first.reason);
    }
    totals->rows += scored.columns.rows;
    for (size_t i = 0; i < scored.scores.size(); i += predictor.outputs().size()) {
      if (std::isnan(scored.scores[i])) ++totals->bad;
    }
    RETURN_IF_ERROR(Judge(*totals, done + 1 < splits));
    if (!scored.scores.empty()) RETURN_IF_ERROR(writer->Append(scored.columns, scored.scores));
  }
  return absl::OkStatus();
}

absl::Status Run(const VerbCall&) {
  RETURN_IF_ERROR(CheckFlags());
  StopRequested();
  ASSIGN_OR_RETURN(std::string dir, FindBundle(FLAGS_bundle));
  ASSIGN_OR_RETURN(std::unique_ptr<Bundle> bundle, Bundle::Load(dir));
  ASSIGN_OR_RETURN(std::unique_ptr<Predictor> predictor, Predictor::Create(std::move(bundle)));
  std::vector<std::string> patterns = absl::StrSplit(FLAGS_data, ',');
  ASSIGN_OR_RETURN(std::unique_ptr<SampleSource> source,
                   SampleSource::Open(patterns, {FLAGS_where}));
  PrintNotes(*source);
  std::vector<std::string> keep = absl::StrSplit(FLAGS_keep, ',', absl::SkipEmpty());
  const BundleSpec& spec = predictor->bundle().spec();
  ASSIGN_OR_RETURN(auto columns, ColumnsToRead(*predictor, keep, *source));
  ASSIGN_OR_RETURN(std::unique_ptr<ScoreWriter> writer,
                   ScoreWriter::Create(FLAGS_out, keep, predictor->outputs()));

  absl::Time start = absl::Now();
  Totals totals;
  RETURN_IF_ERROR(ScoreAll(*source, *predictor, columns, writer.get(), &totals));
  if (totals.rows == 0) {
    return absl::FailedPreconditionError(absl::StrCat(FLAGS_data, ": no row matches --where"));
  }
  RETURN_IF_ERROR(writer->Finish());
  double rate =
      static_cast<double>(totals.rows) / std::max(1e-9, absl::ToDoubleSeconds(absl::Now() - start));
  std::fprintf(stderr, "%s version %llu: %s rows scored, %s bad, %s rows/s\n",
               spec.info.model().c_str(), static_cast<unsigned long long>(spec.info.version()),
               WithCommas(totals.rows).c_str(), WithCommas(totals.bad).c_str(),
               WithCommas(static_cast<int64_t>(rate)).c_str());
  if (!FLAGS_where.empty()) {
    std::fprintf(stderr, "where: %s\n", WhereText(source->counts()).c_str());
  }
  if (totals.bad > 0) std::fprintf(stderr, "first bad row: %s\n", totals.first_bad.c_str());
  if (FLAGS_json) {
    std::printf("{\"rows\": %ld, \"bad_rows\": %ld, \"rows_per_s\": %.1f, \"version\": %llu}\n",
                static_cast<long>(totals.rows), static_cast<long>(totals.bad), rate,
                static_cast<unsigned long long>(spec.info.version()));
  }
  return absl::OkStatus();
}

}  // namespace

Verb PredictVerb() {
  return {"predict",
          "Score every row of a data set: row number, kept columns, the outputs",
          "starling predict --bundle DIR --data PATTERNS --out FILE.parquet|FILE.csv|- "
          "[--where PREDICATE] [--keep C1,C2] [--threads N]",
          {"bundle", "data", "where", "out", "keep", "threads", "bad_rows_max", "json"},
          Run};
}

}  // namespace starling
