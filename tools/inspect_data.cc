#include "tools/inspect_data.h"

#include <gflags/gflags.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "sample_io/column_stats.h"
#include "sample_io/drift.h"
#include "tools/flags.h"
#include "tools/job.h"

DEFINE_string(against, "", "print the drift from the data to these files, directories or globs");
DEFINE_string(columns, "", "only these columns, separated by commas");

namespace starling {
namespace {

using Json = nlohmann::ordered_json;
using Table = std::vector<std::vector<std::string>>;

constexpr size_t kTopShown = 10;

std::vector<std::string> ListOf(const std::string& list) {
  return absl::StrSplit(list, ',', absl::SkipEmpty());
}

absl::StatusOr<DataStats> ReadStats(const std::vector<std::string>& patterns) {
  ASSIGN_OR_RETURN(std::unique_ptr<SampleSource> source,
                   SampleSource::Open(patterns, {FLAGS_where}));
  PrintNotes(*source);
  auto stats = ReadDataStats(*source, ListOf(FLAGS_columns), FLAGS_threads);
  // The source's own errors name their file already.
  if (absl::IsNotFound(stats.status())) {
    return Annotate(stats.status(), absl::StrJoin(patterns, ", "));
  }
  return stats;
}

// The first line is the head; the first two columns are flush left.
void PrintTable(const Table& table) {
  std::vector<size_t> widths(table[0].size(), 0);
  for (const auto& line : table) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  for (const auto& line : table) {
    std::string text;
    for (size_t i = 0; i < line.size(); ++i) {
      const std::string pad(widths[i] - line[i].size(), ' ');
      absl::StrAppend(&text, i > 0 ? "  " : "", i < 2 ? line[i] + pad : pad + line[i]);
    }
    std::printf("%s\n", text.substr(0, text.find_last_not_of(' ') + 1).c_str());
  }
}

// Strings of the data need not be UTF-8.
void PrintJson(const Json& json) {
  std::printf("%s\n", json.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
}

std::string Percent(double share) { return absl::StrFormat("%.3g%%", 100 * share); }

// ---- Statistics ----

Json Limit(const ColumnStats& c, bool greatest) {
  if (c.values == 0 || !c.is_number()) return nullptr;
  if (c.kind == ColumnType::kDouble) return greatest ? c.max_double : c.min_double;
  const int64_t value = greatest ? c.max_int : c.min_int;
  return c.is_unsigned ? Json(static_cast<uint64_t>(value)) : Json(value);
}

// Values that are frequent beyond doubt; a lesser count may be another's.
std::vector<TopValues::Entry> SureTop(const ColumnStats& c) {
  std::vector<TopValues::Entry> top = c.top.Top(kTopShown);
  std::erase_if(top, [&](const TopValues::Entry& entry) { return entry.count <= c.top.error(); });
  return top;
}

Json StatsJson(const ColumnStats& c) {
  Json out = {{"name", c.name},
              {"type", c.type},
              {"rows", c.rows},
              {"nulls", c.nulls},
              {"values", c.values},
              {"distinct", c.distinct_values()},
              {"distinct_exact", c.distinct_is_exact()}};
  if (c.is_list) out["list_length_mean"] = c.rows == c.nulls ? Json() : Json(c.list_length_mean());
  if (c.is_number()) {
    out["min"] = Limit(c, false);
    out["max"] = Limit(c, true);
    out["mean"] = c.values == 0 ? Json() : Json(c.mean());
  }
  if (c.kind == ColumnType::kDouble) {
    out["nan"] = c.nans;
    out["inf"] = c.infinities;
    return out;
  }
  out["top"] = Json::array();
  out["top_count_error_max"] = c.top.error();
  for (const TopValues::Entry& entry : SureTop(c)) {
    out["top"].push_back({{"value", c.TextOf(entry)}, {"count", entry.count}});
  }
  return out;
}

std::vector<std::string> StatsLine(const ColumnStats& c) {
  auto number = [](const Json& json) {
    if (json.is_null()) return std::string("-");
    return json.is_number_integer() ? json.dump() : absl::StrFormat("%.6g", json.get<double>());
  };
  const bool any = c.values > 0 && c.is_number();
  const bool real = c.kind == ColumnType::kDouble;
  return {c.name,
          c.type,
          absl::StrCat(c.rows),
          absl::StrCat(c.nulls),
          c.is_list && c.rows > c.nulls ? absl::StrFormat("%.4g", c.list_length_mean()) : "-",
          number(Limit(c, false)),
          number(Limit(c, true)),
          any ? absl::StrFormat("%.6g", c.mean()) : "-",
          absl::StrCat(c.distinct_is_exact() ? "" : "~", c.distinct_values()),
          real ? absl::StrCat(c.nans) : "-",
          real ? absl::StrCat(c.infinities) : "-"};
}

void PrintTop(const ColumnStats& c) {
  std::vector<std::string> shown;
  for (const TopValues::Entry& entry : SureTop(c)) {
    shown.push_back(absl::StrCat(absl::Utf8SafeCEscape(c.TextOf(entry)), " ", entry.count));
  }
  if (shown.empty()) return;
  const std::string error =
      c.top.exact() ? "" : absl::StrCat(" (each up to ", c.top.error(), " more)");
  std::printf("  %s: %s%s\n", c.name.c_str(), absl::StrJoin(shown, ", ").c_str(), error.c_str());
}

void PrintStats(const std::vector<std::string>& patterns, const DataStats& stats) {
  if (FLAGS_json) {
    Json out = {{"kind", "data statistics"}, {"data", patterns},   {"files", stats.files},
                {"splits", stats.splits},    {"rows", stats.rows}, {"columns", Json::array()}};
    if (!FLAGS_where.empty()) {
      out["files_passed_over"] = stats.counts.files_passed_over;
      out["splits_passed_over"] = stats.counts.splits_passed_over;
    }
    for (const ColumnStats& column : stats.columns) out["columns"].push_back(StatsJson(column));
    return PrintJson(out);
  }
  Table table = {{"column", "type", "rows", "nulls", "length", "min", "max", "mean", "distinct",
                  "nan", "inf"}};
  for (const ColumnStats& column : stats.columns) table.push_back(StatsLine(column));
  absl::PrintF("%d rows in %d files\n\n", stats.rows, stats.files);
  PrintTable(table);
  std::printf("\nmost frequent values and their counts\n");
  for (const ColumnStats& column : stats.columns) PrintTop(column);
}

// ---- Drift ----

const char* Verdict(const ColumnDrift& c) {
  return c.drift() > kPsiDifferent ? "different" : c.drift() > kPsiMoved ? "moved" : "steady";
}

Json DriftJson(const ColumnDrift& c) {
  Json out = {{"name", c.name},
              {"verdict", Verdict(c)},
              {"psi", c.bins.empty() ? Json() : Json(c.psi)},
              {"bins", c.bins.empty() ? Json() : Json(c.bins)},
              {"null_psi", c.null_psi},
              {"null_share_difference", c.null_share_difference},
              {"unseen_share_min", nullptr},
              {"unseen_share_max", nullptr},
              {"new_distinct", nullptr}};
  if (c.unseen_share_min.has_value()) out["unseen_share_min"] = *c.unseen_share_min;
  if (c.unseen_share_max.has_value()) out["unseen_share_max"] = *c.unseen_share_max;
  if (c.new_distinct.has_value()) out["new_distinct"] = *c.new_distinct;
  return out;
}

std::vector<std::string> DriftLine(const ColumnDrift& c) {
  std::string unseen = "-";
  if (c.unseen_share_min.has_value()) {
    unseen = Percent(*c.unseen_share_min);
    if (*c.unseen_share_max > *c.unseen_share_min) {
      absl::StrAppend(&unseen, " to ", Percent(*c.unseen_share_max));
    }
  }
  return {c.name,
          Verdict(c),
          c.bins.empty() ? "-" : absl::StrFormat("%.4f", c.psi),
          c.bins.empty() ? "-" : c.bins,
          absl::StrFormat("%+.3g%%", 100 * c.null_share_difference),
          absl::StrFormat("%.4f", c.null_psi),
          unseen,
          c.new_distinct.has_value() ? absl::StrCat("~", *c.new_distinct) : "-"};
}

void PrintDrift(const std::vector<std::string>& patterns, const DataStats& reference,
                const DataStats& other) {
  const DataDrift drift = CompareStats(reference, other);
  if (FLAGS_json) {
    Json out = {{"kind", "data drift"},
                {"reference", patterns},
                {"other", ListOf(FLAGS_against)},
                {"reference_rows", reference.rows},
                {"other_rows", other.rows},
                {"columns", Json::array()},
                {"not_compared", drift.not_compared}};
    for (const ColumnDrift& column : drift.columns) out["columns"].push_back(DriftJson(column));
    return PrintJson(out);
  }
  Table table = {
      {"column", "verdict", "psi", "bins", "nulls", "null psi", "unseen", "new distinct"}};
  for (const ColumnDrift& column : drift.columns) table.push_back(DriftLine(column));
  absl::PrintF("%d rows against %d; moved above %.2f, different above %.2f\n\n", reference.rows,
               other.rows, kPsiMoved, kPsiDifferent);
  PrintTable(table);
  for (const std::string& why : drift.not_compared) std::printf("not compared: %s\n", why.c_str());
}

}  // namespace

absl::Status RunInspectData(const std::vector<std::string>& patterns) {
  ASSIGN_OR_RETURN(DataStats stats, ReadStats(patterns));
  if (FLAGS_against.empty()) {
    PrintStats(patterns, stats);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(DataStats other, ReadStats(ListOf(FLAGS_against)));
  PrintDrift(patterns, stats, other);
  return absl::OkStatus();
}

absl::Status CheckNoDataFlags() {
  for (const char* name : {"against", "columns", "where", "threads"}) {
    if (gflags::GetCommandLineFlagInfoOrDie(name).is_default) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--", name, " belongs to `starling inspect data PATTERN...`"));
  }
  return absl::OkStatus();
}

}  // namespace starling
