// starling bench NAME: measurements, each beside its reference in the same run.
#include "tools/bench.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/yaml_proto.h"
#include "tools/flags.h"
#include "tools/verbs.h"

DEFINE_bool(quick, false,
            "a smaller run with fewer alternations: to see that it works, not to quote");
DEFINE_string(only, "", "cases to run, separated by commas; default: all");

namespace starling {
namespace {

struct Bench {
  const char* name;
  absl::Status (*run)(bool quick);
};
const Bench kBenches[] = {
    {"train", BenchTrain}, {"pipeline", BenchPipeline}, {"dense", BenchDense},
    {"store", BenchStore}, {"read", BenchRead},         {"checkpoint", BenchCheckpoint},
    {"crash", BenchCrash},
};

absl::Status Run(const VerbCall& call) {
  std::vector<std::string> names;
  for (const Bench& b : kBenches) names.push_back(b.name);
  if (call.args.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("name one benchmark: ", absl::StrJoin(names, ", ")));
  }
  const std::pair<const char*, std::vector<std::string>> flags[] = {
      {"only", {"train", "store", "read", "checkpoint"}},
      {"table_rows", {"store", "checkpoint"}},
      {"peer", {"read"}}};
  for (const auto& [flag, of] : flags) {
    const bool taken = std::find(of.begin(), of.end(), call.args[0]) != of.end();
    if (!taken && !gflags::GetCommandLineFlagInfoOrDie(flag).is_default) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", flag, " is for bench ", absl::StrJoin(of, ", ")));
    }
  }
  for (const Bench& b : kBenches) {
    if (call.args[0] == b.name) return b.run(FLAGS_quick);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no benchmark \"", call.args[0], "\"", DidYouMean(call.args[0], names)));
}

}  // namespace

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

absl::StatusOr<std::set<std::string>> CasesAsked(const std::string& bench,
                                                 const std::vector<std::string>& names) {
  const std::set<std::string> all(names.begin(), names.end());
  if (FLAGS_only.empty()) return all;
  const std::set<std::string> asked = absl::StrSplit(FLAGS_only, ',');
  for (const std::string& name : asked) {
    if (all.contains(name)) continue;
    return absl::InvalidArgumentError(absl::StrCat("--only: no case \"", name, "\" of bench ",
                                                   bench, "; there are ",
                                                   absl::StrJoin(names, ", ")));
  }
  return asked;
}

void ReportFigures(const std::string& bench, const std::string& what,
                   const std::vector<std::pair<std::string, double>>& figures) {
  std::string text;
  for (const auto& [name, value] : figures) {
    if (FLAGS_json) {
      absl::StrAppendFormat(&text, R"(, "%s": %.6g)", name, value);
    } else {
      absl::StrAppendFormat(&text, "\n  %s: %.5g", name, value);
    }
  }
  if (FLAGS_json) {
    absl::PrintF("{\"bench\": \"%s\", \"case\": \"%s\"%s}\n", bench, what, text);
  } else {
    absl::PrintF("%s, %s:%s\n", bench, what, text);
  }
  fflush(stdout);
}

void Report(const BenchResult& r) {
  double value = Median(r.values), reference = Median(r.reference_values);
  std::vector<double> ratios;
  for (size_t i = 0; i < r.values.size(); ++i)
    ratios.push_back(r.values[i] / r.reference_values[i]);
  double ratio = Median(ratios);
  double low = *std::min_element(ratios.begin(), ratios.end());
  double high = *std::max_element(ratios.begin(), ratios.end());
  if (FLAGS_json) {
    std::string bound = r.ratio_bound > 0 ? absl::StrFormat("%.4f", r.ratio_bound) : "null";
    absl::PrintF(
        R"({"bench": "%s", "case": "%s", "value": %.6g, "unit": "%s", "reference": "%s", "reference_value": %.6g, )"
        R"("ratio": %.4f, "ratio_min": %.4f, "ratio_max": %.4f, "ratio_bound": %s, "runs": %d})"
        "\n",
        r.bench, r.what, value, r.unit, r.reference, reference, ratio, low, high, bound,
        r.values.size());
    fflush(stdout);
    return;
  }
  std::string bound =
      r.ratio_bound > 0 ? absl::StrFormat("; at most %.2f possible", r.ratio_bound) : "";
  absl::PrintF("%s, %s: %.4g %s\n  %s: %.4g; ratio %.3f (%.3f to %.3f over %d runs%s)\n", r.bench,
               r.what, value, r.unit, r.reference, reference, ratio, low, high, r.values.size(),
               bound);
  fflush(stdout);
}

Verb BenchVerb() {
  return {"bench",
          "Measure, beside a reference in the same run",
          "starling bench train|pipeline|dense|store|read|checkpoint|crash [--quick] [--json] "
          "[--only CASE,CASE] [--table_rows N] [--peer COMMAND]",
          {"quick", "json", "only", "table_rows", "peer"},
          Run};
}

}  // namespace starling
