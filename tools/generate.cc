// starling generate: Parquet of our own, and the best that any model could reach on it.
#include <gflags/gflags.h>

#include <chrono>
#include <cstdio>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "sample_io/generator.h"
#include "tools/flags.h"
#include "tools/verbs.h"

DEFINE_int64(rows, 1'000'000, "rows to train on");
DEFINE_int64(eval_rows, 200'000, "rows held out, on the days after");
DEFINE_int32(days, 7, "days that the training rows spread over");
DEFINE_int32(impressions, 1,
             "rows that share a user, as one request; above 1 the data is also written nested, a "
             "request a row, to train_nested and eval_nested");
DEFINE_int32(
    sequence, 0,
    "most events that a user has seen; above 0 the data also has item, category, seen_item "
    "and seen_category, which bear on the click");
DEFINE_string(
    shape, "clicks",
    "clicks; criteo: ids of a small field repeat often, of a large one seldom, nothing null; "
    "industrial: "
    "80 slots of one id, S1..S80, and 20 lists of about 20, L1..L20");
DEFINE_string(laws, "",
              "with --shape criteo: how often each field's ids repeat, a file that "
              "tests/bench/peers/fit_shares.py writes of a log");
DEFINE_bool(conversions, false, "a second label, conversion: 1 in some of the clicked rows");
DEFINE_uint64(seed, 1, "every row follows from it");
DEFINE_bool(overwrite, false, "replace a data set of an earlier run");

namespace starling {
namespace {

void PrintPart(const char* name, const PartTruth& t, const char* what = "clicks") {
  if (t.rows == 0) return;
  std::printf("%-6s %10d rows  %5.1f %% %s  best AUC %.5f  best log loss %.5f\n", name,
              static_cast<int>(t.rows), 100.0 * static_cast<double>(t.clicks) / t.rows, what, t.auc,
              t.logloss);
}

void PrintShares(const std::vector<FieldShares>& shares) {
  if (shares.empty()) return;
  const bool fitted = shares[0].fitted > 0;
  std::printf("unique ids in 4,096 rows, %%: of these rows%s\n",
              fitted ? ", and of the log that --laws was fitted to" : "");
  for (size_t f = 0; f < shares.size(); ++f) {
    std::printf("  C%-2d %6.2f", static_cast<int>(f + 1), 100 * shares[f].written);
    if (fitted) std::printf(" %6.2f", 100 * shares[f].fitted);
    std::printf("%s", f % 4 == 3 || f + 1 == shares.size() ? "\n" : "   ");
  }
}

absl::StatusOr<DataShape> ShapeOf(const std::string& name) {
  if (name == "clicks") return DataShape::kClicks;
  if (name == "criteo") return DataShape::kCriteo;
  if (name == "industrial") return DataShape::kIndustrial;
  return absl::InvalidArgumentError(
      absl::StrCat("--shape: \"", name, "\" is none of clicks, criteo, industrial"));
}

absl::Status RunGenerate(const VerbCall& call) {
  if (!call.args.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("unexpected argument \"", call.args[0], "\"; the directory goes to --out"));
  }
  GeneratorOptions options;
  options.out = FLAGS_out;
  ASSIGN_OR_RETURN(options.shape, ShapeOf(FLAGS_shape));
  if (!FLAGS_laws.empty() && options.shape != DataShape::kCriteo)
    return absl::InvalidArgumentError("--laws is for --shape criteo");
  options.laws = FLAGS_laws;
  options.rows = FLAGS_rows;
  options.eval_rows = FLAGS_eval_rows;
  options.days = FLAGS_days;
  options.seed = FLAGS_seed;
  options.impressions = FLAGS_impressions;
  options.sequence = FLAGS_sequence;
  options.conversions = FLAGS_conversions;
  options.overwrite = FLAGS_overwrite;
  auto start = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(GeneratorReport report, Generate(options));
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::fprintf(stderr, "%s: written in %.1f s, %.0f rows/s\n", options.out.c_str(), seconds,
               (report.train.rows + report.eval.rows) / std::max(seconds, 1e-9));
  if (FLAGS_json) {
    std::printf("%s\n", report.json.c_str());
  } else {
    PrintPart("train", report.train);
    PrintPart("eval", report.eval);
    PrintPart("train", report.train_conversions, "conversions");
    PrintPart("eval", report.eval_conversions, "conversions");
    PrintShares(report.shares);
  }
  return absl::OkStatus();
}

}  // namespace

Verb GenerateVerb() {
  return {"generate",
          "Write Parquet from a planted model, and the best AUC and log loss one could reach",
          "starling generate --out DIR [--shape clicks|criteo|industrial] [--laws FILE] [--rows N] "
          "[--eval_rows "
          "N] [--days D] [--seed S] "
          "[--impressions K] [--sequence L] [--conversions] [--overwrite]",
          {"out", "shape", "laws", "rows", "eval_rows", "days", "seed", "impressions", "sequence",
           "conversions", "overwrite", "json"},
          RunGenerate};
}

}  // namespace starling
