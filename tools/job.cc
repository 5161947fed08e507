#include "tools/job.h"

#include <csignal>
#include <cstdio>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "tools/flags.h"

namespace starling {
namespace {

std::atomic<bool> stop_requested{false};

void OnSignal(int signal) {
  if (stop_requested.exchange(true)) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

}  // namespace

absl::StatusOr<LoadedJob> LoadJob(const VerbCall& call) {
  if (FLAGS_config.empty()) return absl::InvalidArgumentError("--config is missing: which job?");
  LoadedJob job;
  ASSIGN_OR_RETURN(job.plan, LoadPlan(FLAGS_config, call.set, &job.map));
  const DataOptions& data = job.plan.job.data();
  if (data.train().empty())
    return job.map.Error("data", "`train` is missing: which files to train on?");
  ASSIGN_OR_RETURN(job.train,
                   OpenData(job.plan, job.map, {data.train().begin(), data.train().end()}));
  if (data.eval().empty()) return job;
  ASSIGN_OR_RETURN(job.eval, OpenData(job.plan, job.map, {data.eval().begin(), data.eval().end()}));
  return job;
}

absl::StatusOr<std::unique_ptr<SampleSource>> OpenData(const Plan& plan, const SourceMap& map,
                                                       const std::vector<std::string>& patterns) {
  const DataOptions& data = plan.job.data();
  auto source =
      SampleSource::Open(patterns, {.where = data.where(), .read_memory = data.read_memory()});
  if (absl::IsInvalidArgument(source.status()) && data.has_where()) {
    return map.Error("data.where", source.status().message());
  }
  RETURN_IF_ERROR(source.status());
  PrintNotes(**source);
  RETURN_IF_ERROR(CheckSchema(plan, map, **source));
  return source;
}

void PrintNotes(const SampleSource& source) {
  for (const SchemaNote& note : source.notes()) {
    std::fprintf(stderr, "note: %s\n", note.text.c_str());
  }
}

std::string WhereText(const SourceCounts& counts) {
  return absl::StrFormat("%s files and %s parts passed over unread; %s of %s rows read match",
                         WithCommas(counts.files_passed_over),
                         WithCommas(counts.splits_passed_over), WithCommas(counts.rows_matched),
                         WithCommas(counts.rows_read));
}

const std::atomic<bool>* StopRequested() {
  static const bool installed = [] {
    std::signal(SIGINT, OnSignal);
    std::signal(SIGTERM, OnSignal);
    return true;
  }();
  (void)installed;
  return &stop_requested;
}

void PrintTable(const std::vector<std::pair<std::string, std::string>>& rows) {
  size_t width = 0;
  for (const auto& [name, value] : rows) width = std::max(width, name.size());
  for (const auto& [name, value] : rows) {
    std::fprintf(stderr, "  %-*s  %s\n", static_cast<int>(width), name.c_str(), value.c_str());
  }
}

std::string WithCommas(int64_t n) {
  std::string s = absl::StrCat(n);
  for (int i = static_cast<int>(s.size()) - 3; i > (n < 0 ? 1 : 0); i -= 3) s.insert(i, 1, ',');
  return s;
}

std::vector<std::pair<std::string, std::string>> EvalRows(const std::vector<EvalMetrics>& metrics) {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const EvalMetrics& m : metrics) {
    const std::string of = metrics.size() > 1 ? absl::StrCat(" of ", m.output) : "";
    auto add = [&](const char* name, std::string value) {
      rows.push_back({absl::StrCat("eval ", name, of), std::move(value)});
    };
    add("rows", WithCommas(m.samples));
    if (!m.probability) {
      add("RMSE", absl::StrFormat("%.5f", m.rmse));
      continue;
    }
    add("AUC", absl::StrFormat("%.5f", m.auc));
    add("GAUC", m.gauc_groups > 0 ? absl::StrFormat("%.5f (%d groups)", m.gauc, m.gauc_groups)
                                  : std::string("no group column"));
    add("log loss", absl::StrFormat("%.5f", m.logloss));
    add("normalised entropy", absl::StrFormat("%.4f", m.ne));
    add("calibration", absl::StrFormat("%.4f", m.calibration));
  }
  return rows;
}

}  // namespace starling
