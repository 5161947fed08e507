#include "scheduler/run_record.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <thread>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/status.h"

namespace starling {
namespace {

constexpr char kFile[] = "run.json";

int Cores() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

}  // namespace

// Reading a Criteo-like row costs a fiftieth of training on it, and the reader shares the
// cores with the steps: it takes what it needs of them, and the steps the rest.
int ReadThreads(const TrainOptions& options) {
  return options.read_threads() > 0 ? options.read_threads() : std::max(1, Cores() / 4);
}

std::string ThreadsText(const TrainOptions& options, int step_threads) {
  std::string text = absl::StrFormat(
      "threads: %d for the steps%s, %d to read ahead%s%s", step_threads,
      options.threads() == 0 ? " (auto: one per core)" : "", ReadThreads(options),
      options.read_threads() == 0 ? " (auto: one for every 4 cores; a step costs far more)" : "",
      step_threads > 1 ? absl::StrFormat("; up to %d of the first compile what was read",
                                         std::min(ReadThreads(options), step_threads - 1))
                       : ", and compile");
  if (options.devices_size() > 1) {
    absl::StrAppend(&text, "; a replica on each of ", absl::StrJoin(options.devices(), ", "));
  }
  return text;
}

RunRecord RecordOf(const Plan& plan, const SampleSource& train, const TrainSummary& summary,
                   int step_threads) {
  const TrainOptions& options = plan.job.train();
  RunRecord run;
  run.set_job(plan.job.name());
  run.set_cores(Cores());
  run.set_threads(step_threads);
  run.set_read_threads(ReadThreads(options));
  run.set_batch(plan.job.data().batch());
  run.set_tile(options.tile());
  run.set_steps(summary.steps);
  run.set_samples(summary.samples);
  run.set_splits(std::ssize(train.splits()));
  run.set_train_seconds(summary.train_seconds);
  run.set_eval_seconds(summary.eval_seconds);
  run.set_checkpoint_seconds(summary.checkpoint_seconds);
  run.set_step_wait_read(summary.stages.wait_read);
  run.set_step_pull(summary.stages.pull);
  run.set_step_compute(summary.stages.compute);
  run.set_step_push(summary.stages.push);
  run.set_step_copy(summary.stages.copy);
  *run.mutable_devices() = options.devices();
  for (int s = 0; s < kStages; ++s) {
    StageRecord* stage = run.add_stages();
    stage->set_name(StageName(static_cast<Stage>(s)));
    stage->set_busy(summary.uses[s].busy);
    stage->set_wait(summary.uses[s].wait);
    stage->set_queue(summary.uses[s].depth());
    stage->set_queue_most(summary.uses[s].depth_most);
  }
  return run;
}

void AddTables(const Plan& plan, ParameterStore& store, RunRecord* run) {
  for (int t = 0; t < store.tables(); ++t) {
    const TableStats stats = store.table(t).stats();
    TableRecord* table = run->add_tables();
    table->set_name(plan.tables.tables(t).options().name());
    table->set_memory(plan.tables.tables(t).options().memory());
    table->set_rows_memory(stats.rows_memory);
    table->set_rows_cold(stats.rows_cold);
    table->set_hits_memory(stats.hits_memory);
    table->set_hits_cold(stats.hits_cold);
    table->set_created(stats.created);
  }
}

absl::StatusOr<RunRecord> ReadRunRecord(const std::string& dir) {
  const std::string path = JoinPath(dir, kFile);
  absl::StatusOr<std::string> text = ReadFile(path);
  if (absl::IsNotFound(text.status())) {
    return absl::NotFoundError(absl::StrCat(
        path,
        ": no such file; give the directory of a run (train.dir) that `starling train` ended"));
  }
  RETURN_IF_ERROR(text.status());
  RunRecord run;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const auto status = google::protobuf::util::JsonStringToMessage(*text, &run, options);
  if (!status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": not a run's record: ", std::string(status.message())));
  }
  return run;
}

absl::Status WriteRunRecord(const RunRecord& run, const std::string& dir) {
  std::string text;
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  const auto status = google::protobuf::util::MessageToJsonString(run, &text, options);
  if (!status.ok()) return absl::InternalError(std::string(status.message()));
  return WriteFileAtomically(JoinPath(dir, kFile), text);
}

}  // namespace starling
