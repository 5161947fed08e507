// RunLog: what a person, and their tools, see of a run while it goes on: a
// progress bar on a terminal and a plain line every 10 s elsewhere (stderr),
// `metrics.jsonl` and TensorBoard events in the run's directory, Prometheus gauges.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "scheduler/evaluation.h"

namespace starling {

class RunLog {
 public:
  // `total_samples` is what the whole run will read, for the time left; 0: unknown.
  // `first` is the model's first output, whose AUC is followed.
  static absl::StatusOr<std::unique_ptr<RunLog>> Create(const std::string& dir,
                                                        int64_t total_samples,
                                                        const OutputSpec& first);
  virtual ~RunLog() = default;  // Ends the bar's line.

  // After every step; prints and writes now and then. `samples` counts from
  // the start of the run, resumed parts included.
  virtual absl::Status Step(int64_t step, int64_t samples, double loss, double lr_scale,
                            std::span<const float> scores, const Batch& batch) = 0;
  // `metrics` has one an output.
  virtual absl::Status Eval(int64_t step, const std::vector<EvalMetrics>& metrics) = 0;
  virtual void Say(absl::string_view line) = 0;

  virtual double train_loss() const = 0;  // Fading mean.
  virtual double train_auc() const = 0;   // Progressive: each row scored before it was learned.
};

}  // namespace starling
