// What a model's scores are worth: AUC, GAUC, log loss, normalised entropy and
// calibration over a held-out set, and a running AUC for the progress line.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace starling {

struct EvalMetrics {
  int64_t samples = 0;
  double auc = 0;   // Ties count half. 0.5 if one class is absent.
  double gauc = 0;  // Mean AUC of groups with both classes, weighted by rows; auc without groups.
  int64_t gauc_groups = 0;  // Groups that had both classes.
  double logloss = 0;
  double ne = 0;           // Log loss over that of always predicting the mean label.
  double calibration = 0;  // Sum of scores over sum of labels.
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

}  // namespace starling
