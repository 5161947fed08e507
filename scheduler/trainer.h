// Trainer: a job from its first step, or a checkpoint, to its end, in one
// process: passes over the data, evaluation, schedule, early stopping,
// checkpoints. The model that is left, and that the last checkpoint holds, is
// the best evaluated one if the job stops early, else the last.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/stages.h"
#include "sample_io/source.h"
#include "scheduler/model.h"
#include "scheduler/plan.h"
#include "scheduler/step_pipeline.h"

namespace starling {

struct TrainSummary {
  int64_t steps = 0;  // Of this process; `state` counts over resumes.
  int64_t samples = 0;
  double train_seconds = 0;  // Without evaluation, and checkpoints that were waited for.
  TrainerState state;
  bool evaluated = false;
  std::vector<EvalMetrics> eval;         // Of the model that is left, by output.
  double train_loss = 0, train_auc = 0;  // Progressive.
  StageTimes stages;
  StageUses uses;            // Of all threads.
  double first_step_at = 0;  // Seconds since the epoch, at its end; 0: there was none.
  double eval_seconds = 0;
  double checkpoint_seconds = 0;  // That steps waited for checkpoints.
  int64_t bad_rows = 0;
  int64_t requests = 0;  // Rows that share a user count once.
  BatchWork request_work, row_work;
  StepCounts counts;
  std::string checkpoint;  // Directory of the last one.
};

class Trainer {
 public:
  // `eval` may be null. `stop` is polled after every step. All must outlive
  // the trainer.
  Trainer(const Plan& plan, const SampleSource* train, const SampleSource* eval,
          const std::atomic<bool>* stop);
  ~Trainer();

  // With `resume` goes on from the latest checkpoint of the job, if there is
  // one that fits, or differs only in what `allow` names (of data, and what
  // CheckFits compares). With other data the model is kept and reading begins
  // anew. Without it a root that holds checkpoints is refused, since
  // they would be mixed with this run's.
  // Cancelled if stopped; a checkpoint was then saved and the message says how
  // to go on. Aborted for a numeric abort; the last good step is saved.
  absl::Status Run(bool resume, const std::set<std::string>& allow = {});

  const TrainSummary& summary() const;
  LocalModel& model();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Where a job's checkpoints and scratch files go.
std::string CheckpointRoot(const Job& job);
std::string ScratchDir(const Job& job);
NetworkOptions NetworkOptionsOf(const Job& job);
// Opens the devices, if replicas train: one CPU alone is the host itself.
absl::StatusOr<PipelineOptions> PipelineOptionsOf(const TrainOptions& options);
// All of a manifest's info that follows from the plan.
CheckpointInfo InfoOf(const Plan& plan, int shards);

}  // namespace starling
