// starling train: a job from Parquet to a checkpoint.
#include <gflags/gflags.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/metrics.h"
#include "base/stages.h"
#include "base/status.h"
#include "base/yaml_proto.h"
#include "scheduler/trainer.h"
#include "tools/flags.h"
#include "tools/job.h"
#include "tools/process.h"
#include "tools/verbs.h"

DEFINE_bool(resume, false, "go on from the latest checkpoint");
DEFINE_string(trace, "",
              "write what each thread did to this file, for Perfetto or chrome://tracing");
DEFINE_string(allow, "",
              "with --resume: differences to take all the same, of features, tables, model, "
              "optimizer, data; comma-separated");

namespace starling {
namespace {

std::vector<std::pair<std::string, std::string>> StageRows(const StageUses& uses) {
  std::vector<std::pair<std::string, std::string>> rows;
  for (int i = 0; i < kStages; ++i) {
    const StageUse& use = uses[i];
    if (use.busy + use.wait < 0.0005) continue;
    std::string text = absl::StrFormat("%.2f, %.2f", use.busy, use.wait);
    if (use.depth_most > 0)
      absl::StrAppendFormat(&text, "; %.1f of %d batches queued", use.depth(), use.depth_most);
    rows.push_back(
        {absl::StrCat("all threads' seconds at work, waiting: ", StageName(static_cast<Stage>(i))),
         text});
  }
  return rows;
}

std::string StagesJson(const StageUses& uses) {
  std::vector<std::string> parts;
  for (int i = 0; i < kStages; ++i) {
    parts.push_back(absl::StrFormat(R"("%s": {"busy": %.3f, "wait": %.3f, "queue": %.2f})",
                                    StageName(static_cast<Stage>(i)), uses[i].busy, uses[i].wait,
                                    uses[i].depth()));
  }
  return absl::StrJoin(parts, ", ");
}

// From the start of the process to the end of its first step.
double FirstStepSeconds(const TrainSummary& s) {
  if (s.first_step_at == 0) return 0;
  return ProcessAge() - (absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()) - s.first_step_at);
}

// Of this process, at most so far, as the kernel counts it.
int64_t ResidentBytesMax() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} << 10;
}

void PrintClosing(const LoadedJob& job, const TrainSummary& s) {
  std::vector<std::pair<std::string, std::string>> rows = {
      {"rows trained", WithCommas(s.samples)},
      {"steps", WithCommas(s.steps)},
      {"samples/s", WithCommas(static_cast<int64_t>(s.samples / std::max(1e-9, s.train_seconds)))},
      {"bad rows", WithCommas(s.bad_rows)},
      {"train loss, AUC (progressive)", absl::StrFormat("%.5f, %.5f", s.train_loss, s.train_auc)},
  };
  if (s.evaluated) {
    for (auto& row : EvalRows(s.eval)) rows.push_back(row);
  }
  const StageTimes& t = s.stages;
  rows.push_back(
      {"seconds in read-wait, pull, compute, push",
       absl::StrFormat("%.2f, %.2f, %.2f, %.2f", t.wait_read, t.pull, t.compute, t.push)});
  const auto& devices = job.plan.job.train().devices();
  if (devices.size() > 1) {
    rows.push_back({"devices; seconds waited for copies",
                    absl::StrFormat("%s; %.2f", absl::StrJoin(devices, ", "), t.copy)});
  }
  for (auto& row : StageRows(s.uses)) rows.push_back(row);
  rows.push_back(
      {"seconds from start to first step", absl::StrFormat("%.2f", FirstStepSeconds(s))});
  rows.push_back({"seconds in evaluation, checkpoints",
                  absl::StrFormat("%.2f, %.2f", s.eval_seconds, s.checkpoint_seconds)});
  rows.push_back({"MiB resident at most", WithCommas(ResidentBytesMax() >> 20)});
  if (job.plan.job.data().has_where()) rows.push_back({"where", WhereText(job.train->counts())});
  rows.push_back({"checkpoint", s.checkpoint});
  std::fprintf(stderr, "\n%s: trained to step %s\n", job.plan.job.name().c_str(),
               WithCommas(s.state.step()).c_str());
  PrintTable(rows);
}

void PrintJson(const LoadedJob& job, const TrainSummary& s) {
  const SourceCounts read = job.train->counts();
  std::vector<EvalMetrics> m = s.eval;
  if (!s.evaluated) {  // Progressive: each row was scored before it was learned.
    m.resize(1);
    m[0].auc = m[0].gauc = s.train_auc;
    m[0].logloss = s.train_loss;
  }
  const StageTimes& t = s.stages;
  absl::PrintF(
      R"({%s, "metrics_of": "%s", "samples": %d, "samples_per_s": %.1f, "steps": %d, "step": %d, "bad_rows": %d, )"
      R"("seconds": {"first_step": %.3f, "train": %.3f, "wait_read": %.3f, "pull": %.3f, "copy": %.3f, "compute": %.3f, "push": %.3f, )"
      R"("eval": %.3f, "checkpoint": %.3f}, "stages": {%s}, )"
      R"("data": {"files_passed_over": %d, "splits_passed_over": %d, "rows_read": %d, "rows_matched": %d, )"
      R"("values_read": %d, "member_values_read": %d}, )"
      R"("work": {"requests": %d, "hashed": {"user": %d, "row": %d}, "scaled": {"user": %d, "row": %d}, )"
      R"("ids_pulled": %d, "ids_pushed": %d}, "resident_bytes_max": %d, "checkpoint": "%s"})"
      "\n",
      MetricsJson(m), s.evaluated ? "eval" : "train, progressive", s.samples,
      s.samples / std::max(1e-9, s.train_seconds), s.steps, s.state.step(), s.bad_rows,
      FirstStepSeconds(s), s.train_seconds, t.wait_read, t.pull, t.copy, t.compute, t.push,
      s.eval_seconds, s.checkpoint_seconds, StagesJson(s.uses), read.files_passed_over,
      read.splits_passed_over, read.rows_read, read.rows_matched, read.values_read,
      read.member_values_read, s.requests, s.request_work.hashed, s.row_work.hashed,
      s.request_work.scaled, s.row_work.scaled, s.counts.ids_pulled, s.counts.ids_pushed,
      ResidentBytesMax(), s.checkpoint.c_str());
}

absl::StatusOr<std::set<std::string>> Allowed() {
  const std::vector<std::string> known = {"features", "tables", "model", "optimizer", "data"};
  std::set<std::string> allow = absl::StrSplit(FLAGS_allow, ',', absl::SkipEmpty());
  for (const std::string& name : allow) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--allow ", name, ": not one of ", absl::StrJoin(known, ", "), DidYouMean(name, known)));
  }
  if (!allow.empty() && !FLAGS_resume) return absl::InvalidArgumentError("--allow needs --resume");
  return allow;
}

absl::Status Run(const VerbCall& call) {
  ASSIGN_OR_RETURN(const std::set<std::string> allow, Allowed());
  ASSIGN_OR_RETURN(LoadedJob job, LoadJob(call));
  std::unique_ptr<MetricsServer> metrics;
  if (job.plan.job.train().metrics_port() > 0) {
    ASSIGN_OR_RETURN(metrics, MetricsServer::Start(job.plan.job.train().metrics_port()));
    std::fprintf(stderr, "metrics on http://127.0.0.1:%d/metrics\n", metrics->port());
  }
  ExportStages();
  NameThread("steps");
  if (!FLAGS_trace.empty()) {
    RETURN_IF_ERROR(
        Annotate(WriteFileAtomically(FLAGS_trace, ""), "--trace"));  // Not only at the end.
    StartTrace();
  }
  Trainer trainer(job.plan, job.train.get(), job.eval.get(), StopRequested());
  absl::Status status = trainer.Run(FLAGS_resume, allow);
  if (!FLAGS_trace.empty()) {
    absl::Status traced = WriteTrace(FLAGS_trace);
    if (status.ok()) status = traced;
  }
  RETURN_IF_ERROR(status);
  PrintClosing(job, trainer.summary());
  if (FLAGS_json) PrintJson(job, trainer.summary());
  return absl::OkStatus();
}

}  // namespace

Verb TrainVerb() {
  return {"train",
          "Train a model from Parquet logs",
          "starling train --config job.yaml [--resume [--allow data,…]] [--trace out.json] [--set "
          "a.b=v]",
          {"config", "set", "resume", "allow", "trace", "json"},
          Run};
}

}  // namespace starling
