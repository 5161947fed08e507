// starling init: looks at Parquet and writes a first job for it, with comments.
#include <gflags/gflags.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/status.h"
#include "dense_net/forward.h"
#include "scheduler/data_type.h"
#include "scheduler/plan.h"
#include "tools/flags.h"
#include "tools/verbs.h"

DEFINE_string(label, "", "the column with the label; default: guessed by name");
DECLARE_bool(overwrite);

namespace starling {
namespace {

const std::vector<std::string> kLabelNames = {"click",   "label",      "is_click",   "clicked",
                                              "target",  "y",          "is_clicked", "conversion",
                                              "convert", "is_convert", "purchase",   "buy"};
const std::vector<std::string> kTimeNames = {"ts",   "timestamp", "event_time", "event_ts",
                                             "time", "datetime",  "created_at", "event_timestamp"};
const std::vector<std::string> kGroupNames = {"user", "user_id", "userid", "uid", "member_id"};

constexpr double kWide = 20;  // Numbers beyond this are better taken by their logarithm.

// What the look at the data found.
struct Findings {
  std::string train, eval;
  std::string label, event_time, group;
  std::vector<std::string> ids, raws, wide_raws;
  std::vector<std::string> left_out;  // "name (why)".
};

const ColumnSchema* FindColumn(const std::vector<ColumnSchema>& schema,
                               const std::vector<std::string>& names,
                               bool (DataType::*fits)() const) {
  for (const std::string& name : names) {
    for (const ColumnSchema& column : schema) {
      if (absl::AsciiStrToLower(column.name) == name && (DataTypeNamed(column.type).*fits)()) {
        return &column;
      }
    }
  }
  return nullptr;
}

absl::Status FindLabel(const std::vector<ColumnSchema>& schema, Findings* found) {
  std::vector<std::string> names;
  for (const ColumnSchema& column : schema) names.push_back(column.name);
  if (!FLAGS_label.empty()) {
    if (std::find(names.begin(), names.end(), FLAGS_label) == names.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--label: the data has no column \"", FLAGS_label, "\"", DidYouMean(FLAGS_label, names)));
    }
    found->label = FLAGS_label;
    return absl::OkStatus();
  }
  const ColumnSchema* label = FindColumn(schema, kLabelNames, &DataType::FitsLabel);
  if (label == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "no column looks like a label; name it with --label, one of ", absl::StrJoin(names, ", ")));
  }
  found->label = label->name;
  return absl::OkStatus();
}

void FindTimeAndGroup(const std::vector<ColumnSchema>& schema, Findings* found) {
  const ColumnSchema* time = FindColumn(schema, kTimeNames, &DataType::FitsEventTime);
  for (const ColumnSchema& column : schema) {
    if (time == nullptr && absl::StartsWith(column.type, "timestamp")) time = &column;
  }
  if (time != nullptr && time->name != found->label) found->event_time = time->name;
  const ColumnSchema* group = FindColumn(schema, kGroupNames, &DataType::FitsGroup);
  if (group != nullptr && group->name != found->label) found->group = group->name;
}

// Largest magnitude of the column's first row group; infinity if it holds NaN or infinity.
double Magnitude(const Column& column) {
  double most = 0;
  for (int64_t i = 0; i < column.rows; ++i) {
    if (column.IsNull(i) || column.type != ColumnType::kDouble) continue;
    if (!std::isfinite(column.doubles[i])) return INFINITY;
    most = std::max(most, std::abs(column.doubles[i]));
  }
  return most;
}

absl::Status SortColumn(const SampleSource& source, const ColumnSchema& column, Findings* found) {
  const std::string& name = column.name;
  const DataType type = DataTypeNamed(column.type);
  auto leave_out = [&](absl::string_view why) {
    found->left_out.push_back(absl::StrCat(name, " (", why, ")"));
    return absl::OkStatus();
  };
  if (name == found->label || name == found->event_time) return absl::OkStatus();
  if (name == found->group) return leave_out("the group; add it to `id` to learn each one's taste");
  if (absl::StrContains(source.splits()[0].file, absl::StrCat("/", name, "="))) {
    return leave_out("part of the path");
  }
  if (name.find("..") != std::string::npos) return leave_out("`..` in a name means a range");
  if (type.kind == DataType::kNull) return leave_out("all null");
  if (type.kind == DataType::kTime) return leave_out(column.type);
  if (type.FitsId()) {
    found->ids.push_back(name);
    return absl::OkStatus();
  }
  if (!type.FitsRaw()) return leave_out(column.type);
  ASSIGN_OR_RETURN(ColumnBatch sample, source.Read(0, {name}));
  const double magnitude = Magnitude(sample.columns[0]);
  if (std::isinf(magnitude)) return leave_out("holds NaN or infinity");
  (magnitude > kWide ? found->wide_raws : found->raws).push_back(name);
  return absl::OkStatus();
}

bool NeedsQuotes(const std::string& text) {
  static const std::set<std::string> words = {"true", "false", "null", "yes", "no", "on", "off"};
  if (text.empty() || words.count(absl::AsciiStrToLower(text)) > 0) return true;
  for (char c : text) {
    if (!absl::ascii_isalnum(c) && c != '_' && c != '/' && c != '.' && c != '-') return true;
  }
  return !absl::ascii_isalpha(text[0]) && text[0] != '/' && text[0] != '_' && text[0] != '.';
}
std::string Quoted(const std::string& text) {
  if (!NeedsQuotes(text)) return text;
  std::string out = "\"";
  for (char c : text) absl::StrAppend(&out, c == '"' || c == '\\' ? "\\" : "", std::string(1, c));
  return out + "\"";
}

// "C" and 7 of "C7"; false if the name has no number at its end, or one with leading zeros.
bool SplitName(const std::string& name, std::string* prefix, int64_t* number) {
  size_t at = name.find_last_not_of("0123456789") + 1;
  *prefix = name.substr(0, at);
  return at < name.size() && (name[at] != '0' || at + 1 == name.size()) && !NeedsQuotes(name) &&
         absl::SimpleAtoi(name.substr(at), number);
}

// Runs of three and more neighbours become ranges: "C1..C26, user".
std::string ColumnList(const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (size_t i = 0; i < names.size();) {
    std::string prefix, other;
    int64_t first = 0, number = 0;
    size_t end = i + 1;
    if (SplitName(names[i], &prefix, &first)) {
      while (end < names.size() && SplitName(names[end], &other, &number) && other == prefix &&
             number == first + static_cast<int64_t>(end - i)) {
        ++end;
      }
    }
    if (end - i >= 3) {
      out.push_back(absl::StrCat(names[i], "..", names[end - 1]));
    } else {
      for (size_t k = i; k < end; ++k) out.push_back(Quoted(names[k]));
    }
    i = end;
  }
  return absl::StrJoin(out, ", ");
}

std::string DataBlock(const Findings& f) {
  std::string out = "data:\n";
  absl::StrAppend(&out, "  train: ", Quoted(f.train),
                  "  # directories, files or globs of Parquet\n");
  absl::StrAppend(&out, f.eval.empty() ? "  # eval: held_out/" : "  eval: ",
                  f.eval.empty() ? "" : Quoted(f.eval), "  # held out, to judge the model by\n");
  absl::StrAppend(&out, "  label: ", Quoted(f.label), "  # 0..1\n");
  if (!f.event_time.empty()) {
    absl::StrAppend(&out, "  event_time: ", Quoted(f.event_time), "  # rows of tables age by it\n");
  }
  if (!f.group.empty()) {
    absl::StrAppend(&out, "  group: ", Quoted(f.group), "  # GAUC is the AUC within each\n");
  }
  return out + "  batch: 2048  # rows per step\n";
}

std::string FeatureBlocks(const Findings& f) {
  std::string out = "features:\n";
  if (!f.ids.empty()) {
    absl::StrAppend(&out,
                    "  # Hashed to sparse ids; `dim` floats each, in one table within a budget of "
                    "memory.\n  - id: [",
                    ColumnList(f.ids), "]\n    dim: 16\n    table: {memory: 1GiB}\n");
  }
  if (!f.wide_raws.empty()) {
    absl::StrAppend(&out, "  # Numbers of a wide range: sign(x) * log(1 + |x|).\n  - raw: [",
                    ColumnList(f.wide_raws), "]\n    norm: log1p\n");
  }
  if (!f.raws.empty()) {
    absl::StrAppend(&out, "  # Numbers, taken as they are.\n  - raw: [", ColumnList(f.raws), "]\n");
  }
  for (const std::string& name : f.left_out) absl::StrAppend(&out, "  # Left out: ", name, "\n");
  return out;
}

std::string JobText(const Findings& f) {
  const bool ids = !f.ids.empty();
  return absl::StrCat(
      "# A first job for ", f.train, ", written by `starling init`.\n",
      "# `starling validate --schema` prints every key; then: starling train --config <this "
      "file>\n",
      DataBlock(f), FeatureBlocks(f), "# One of ", ModelNames(), ".\nmodel: {",
      ids ? "deepfm" : "dnn", ": {hidden: [128, 64]}}\noptimizer:\n",
      ids ? "  sparse: {adagrad: {lr: 0.02}}  # rows of the tables\n" : "",
      "  dense: {adam: {lr: 0.001}}  # the network\n",
      "train:\n  dir: run  # checkpoints, metrics, events\n  epochs: 1\n  seed: 1\n",
      "  checkpoint: {every: 10min, keep: 3}\n");
}

absl::StatusOr<std::string> MakeJob(const std::string& data) {
  Findings found;
  found.train = data;
  if (PathExists(JoinPath(data, "train")) && PathExists(JoinPath(data, "eval"))) {
    found.train = JoinPath(data, "train");
    found.eval = JoinPath(data, "eval");
  }
  ASSIGN_OR_RETURN(std::unique_ptr<SampleSource> source, SampleSource::Open({found.train}));
  RETURN_IF_ERROR(FindLabel(source->schema(), &found));
  FindTimeAndGroup(source->schema(), &found);
  for (const ColumnSchema& column : source->schema()) {
    RETURN_IF_ERROR(SortColumn(*source, column, &found));
  }
  if (found.ids.empty() && found.raws.empty() && found.wide_raws.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(data, ": no column beside the label can be a feature"));
  }
  std::string text = JobText(found);
  // What init writes must be ready to train.
  Job job;
  SourceMap map;
  RETURN_IF_ERROR(ParseYaml(text, "job.yaml", {}, &job, &map));
  ASSIGN_OR_RETURN(Plan plan, MakePlan(job, map));
  RETURN_IF_ERROR(CheckSchema(plan, map, *source));
  return text;
}

absl::Status RunInit(const VerbCall& call) {
  if (call.args.size() != 1) {
    return absl::InvalidArgumentError("which data? Give one file or directory of Parquet");
  }
  const bool to_stdout = FLAGS_out.empty() || FLAGS_out == "-";
  if (!to_stdout && PathExists(FLAGS_out) && !FLAGS_overwrite) {
    return absl::AlreadyExistsError(
        absl::StrCat(FLAGS_out, " exists; replace it with --overwrite"));
  }
  ASSIGN_OR_RETURN(std::string text, MakeJob(call.args[0]));
  if (to_stdout) {
    std::printf("%s", text.c_str());
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(WriteFileAtomically(FLAGS_out, text));
  std::fprintf(stderr, "%s: written; next: starling validate --config %s\n", FLAGS_out.c_str(),
               FLAGS_out.c_str());
  return absl::OkStatus();
}

}  // namespace

Verb InitVerb() {
  return {"init",
          "Look at Parquet and write a first job for it",
          "starling init DATA [--out job.yaml] [--label COLUMN]",
          {"out", "label", "overwrite"},
          RunInit};
}

}  // namespace starling
