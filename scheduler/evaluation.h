// What a model's scores are worth: AUC, GAUC, log loss, normalised entropy and
// calibration over a held-out set, or the error of numbers, for each output;
// and a running AUC for the progress line.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dense_net/forward.h"
#include "scheduler/job.pb.h"

namespace starling {

struct EvalMetrics {
  std::string output;       // Its name.
  bool probability = true;  // Else `rmse` alone counts, and has no meaning otherwise.
  int64_t samples = 0;
  double auc = 0;   // Ties count half. 0.5 if one class is absent.
  double gauc = 0;  // Mean AUC of groups with both classes, weighted by rows; auc without groups.
  int64_t gauc_groups = 0;  // Groups that had both classes.
  double logloss = 0;
  double ne = 0;           // Log loss over that of always predicting the mean label.
  double calibration = 0;  // Sum of scores over sum of labels.
  double rmse = 0;         // Root of the mean squared error.
};

// Collects scores, then computes exactly. Not thread-safe.
class Evaluation {
 public:
  // `groups` may be empty. A label above 0.5 counts as positive for AUC.
  void Add(std::span<const float> scores, std::span<const float> labels,
           std::span<const uint64_t> groups);
  EvalMetrics Compute() const;

 private:
  std::vector<float> scores_, labels_;
  std::vector<uint64_t> groups_;
};

// The outputs of a model side by side, each by its own label and, if it is so
// specified, on rows of its own.
class ModelEvaluation {
 public:
  explicit ModelEvaluation(std::span<const OutputSpec> outputs);
  // `scores` is (rows, outputs).
  void Add(std::span<const float> scores, const Batch& batch);
  std::vector<EvalMetrics> Compute() const;  // One an output.

 private:
  const std::vector<OutputSpec> outputs_;
  std::vector<Evaluation> evaluations_;
  std::vector<float> scores_, labels_;  // Of one output and one batch.
  std::vector<uint64_t> groups_;
};

// The fields of a JSON object, without braces: those of the first output, and
// `tasks`, an object by name, if there are several.
std::string MetricsJson(const std::vector<EvalMetrics>& metrics);

// AUC of the scores seen lately, from a histogram whose old counts fade.
class RunningAuc {
 public:
  RunningAuc();
  void Add(std::span<const float> scores, std::span<const float> labels);
  double Value() const;

 private:
  static constexpr int kBins = 4096;
  std::vector<double> positive_, negative_;
};

// The metric early stopping follows; larger is better.
double Judged(const EarlyStopOptions& options, const std::vector<EvalMetrics>& metrics);

}  // namespace starling
