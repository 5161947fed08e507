// OnlineLearner: trains incrementally on files that appear in a directory,
// each once, in the order of their names. Goes on from the job's latest
// checkpoint, be it from `train` or from an earlier life of its own.
//
// The unit of progress is a file: a checkpoint holds the names of the files
// learned, so that after a kill each row still counts once. Checkpoints that
// train.checkpoint asks for are begun between two files and written while
// learning goes on.
//
// Not thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/thread_pool.h"
#include "base/yaml_proto.h"
#include "scheduler/checkpoint_keeper.h"
#include "scheduler/model.h"
#include "scheduler/plan.h"
#include "scheduler/run_log.h"
#include "scheduler/step_pipeline.h"

namespace starling {

class OnlineLearner {
 public:
  static absl::StatusOr<std::unique_ptr<OnlineLearner>> Create(const Plan& plan,
                                                               const SourceMap& map,
                                                               const std::string& watch,
                                                               const std::atomic<bool>* stop);

  // Learns from the first new *.parquet in the directory (names that begin
  // with `.` or `_` are left alone); false if there is none. A file that cannot
  // be read, or whose schema does not fit, is reported, counted, and not tried
  // again by this process; nothing of it was learned.
  absl::StatusOr<bool> LearnNewFile();

  // Begins a checkpoint of this moment, unless there is one; Await returns when
  // it is complete. Nothing may be learned in between.
  absl::Status Begin();
  absl::Status Await();

  LocalModel& model() { return *model_; }
  const TrainerState& state() const { return state_; }
  int64_t files() const { return static_cast<int64_t>(done_.size()); }
  int64_t bad_files() const { return static_cast<int64_t>(bad_.size()); }

 private:
  OnlineLearner(const Plan& plan, const SourceMap& map, const std::string& watch,
                const std::atomic<bool>* stop);
  absl::Status Start();
  absl::Status NewModel();
  absl::Status TakeUp(const Checkpoint& checkpoint);
  absl::StatusOr<std::unique_ptr<SampleSource>> OpenFile(const std::string& path) const;
  absl::Status Learn(const SampleSource& source, const std::string& name);
  CheckpointInfo InfoNow() const;

  const Plan plan_;
  const SourceMap map_;
  const std::string watch_;
  const std::atomic<bool>* const stop_;
  ThreadPool pool_;
  std::unique_ptr<LocalModel> model_;
  std::unique_ptr<CheckpointKeeper> checkpoints_;  // Of the model's store.
  std::unique_ptr<StepPipeline> pipeline_;
  std::unique_ptr<RunLog> log_;
  TrainerState state_;
  std::set<std::string> done_, bad_;  // Names of files.
};

}  // namespace starling
