// The record a run leaves in its directory, run.json, for `starling explain`; and
// how its threads are shared out.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "scheduler/run.pb.h"
#include "scheduler/trainer.h"

namespace starling {

// Threads that read ahead of the steps, and as many of the steps' at most that compile.
int ReadThreads(const TrainOptions& options);
// "threads: 2 for the steps (auto: …), 1 to read …".
std::string ThreadsText(const TrainOptions& options, int step_threads);

// All but how it ended, and the tables.
RunRecord RecordOf(const Plan& plan, const SampleSource& train, const TrainSummary& summary,
                   int step_threads);
void AddTables(const Plan& plan, ParameterStore& store, RunRecord* run);
absl::Status WriteRunRecord(const RunRecord& run, const std::string& dir);
// NotFound, saying who writes it, if there is none.
absl::StatusOr<RunRecord> ReadRunRecord(const std::string& dir);

}  // namespace starling
