// What the parts of bench train share: one pass of the production pipeline over a data set.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/stages.h"
#include "scheduler/trainer.h"

namespace starling {

struct TrainPass {
  double seconds = 0;
  int64_t samples = 0;
  StageUses stages;  // Of all threads.
};

// A model, its data and the pipeline between them, for one pass after another.
class TrainBench {
 public:
  // `config`: a job's YAML; rows live in memory or below `dir`.
  static absl::StatusOr<std::unique_ptr<TrainBench>> Create(const std::string& config,
                                                            const std::string& dir,
                                                            ThreadPool* pool);
  // The next one over the training data; its first `warm` samples or some more do not count.
  absl::StatusOr<TrainPass> Pass(int64_t warm = 0);
  // Reads the training data without training.
  absl::Status Read(const std::function<void(const Batch&)>& fn) const;
  absl::StatusOr<double> Auc();  // Of data.eval.
  const Network& network() const { return model_->network(); }
  ParameterStore& store() { return model_->store(); }
  const StageTimes& times() const { return pipeline_->times(); }

 private:
  TrainBench() = default;
  absl::StatusOr<std::unique_ptr<BatchReader>> NewReader(uint32_t pass) const;

  ThreadPool* pool_ = nullptr;
  Plan plan_;
  std::unique_ptr<SampleSource> source_;
  std::unique_ptr<LocalModel> model_;
  std::unique_ptr<StepPipeline> pipeline_;
  uint32_t passes_ = 0;
  int64_t step_ = 0;
};

// Training on rows that share a user, as requests and flat; `dir` is for the data.
absl::Status BenchTrainRequests(const std::string& dir, bool quick);
// Training with 1 to 100 million rows in the table.
absl::Status BenchTrainRows(const std::string& dir, bool quick);

}  // namespace starling
