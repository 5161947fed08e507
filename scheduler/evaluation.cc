#include "scheduler/evaluation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace starling {
namespace {

// The AUC of rows order[begin, end), which ascend by score; false if a class is absent.
bool AucOfSorted(std::span<const uint32_t> order, const std::vector<float>& scores,
                 const std::vector<float>& labels, double* auc) {
  double positives = 0, negatives = 0, pairs = 0;
  for (size_t i = 0; i < order.size();) {
    size_t j = i;
    double p = 0, n = 0;
    for (; j < order.size() && scores[order[j]] == scores[order[i]]; ++j) {
      (labels[order[j]] > 0.5f ? p : n) += 1;
    }
    pairs += p * (negatives + 0.5 * n);
    positives += p;
    negatives += n;
    i = j;
  }
  if (positives == 0 || negatives == 0) return false;
  *auc = pairs / (positives * negatives);
  return true;
}

double LogLossOf(double p, double y) {
  p = std::clamp(p, 1e-7, 1.0 - 1e-7);
  return -(y * std::log(p) + (1 - y) * std::log(1 - p));
}

std::string FieldsJson(const EvalMetrics& m) {
  if (!m.probability)
    return absl::StrFormat(R"("auc": null, "logloss": null, "rmse": %.6f)", m.rmse);
  return absl::StrFormat(
      R"("auc": %.6f, "gauc": %.6f, "logloss": %.6f, "ne": %.6f, "calibration": %.6f)", m.auc,
      m.gauc, m.logloss, m.ne, m.calibration);
}

}  // namespace

void Evaluation::Add(std::span<const float> scores, std::span<const float> labels,
                     std::span<const uint64_t> groups) {
  scores_.insert(scores_.end(), scores.begin(), scores.end());
  labels_.insert(labels_.end(), labels.begin(), labels.end());
  groups_.insert(groups_.end(), groups.begin(), groups.end());
}

EvalMetrics Evaluation::Compute() const {
  EvalMetrics m;
  m.samples = scores_.size();
  if (m.samples == 0) return m;
  double loss = 0, score_sum = 0, label_sum = 0, squares = 0;
  for (size_t i = 0; i < scores_.size(); ++i) {
    loss += LogLossOf(scores_[i], labels_[i]);
    score_sum += scores_[i];
    label_sum += labels_[i];
    squares += (double{scores_[i]} - labels_[i]) * (double{scores_[i]} - labels_[i]);
  }
  m.rmse = std::sqrt(squares / m.samples);
  m.logloss = loss / m.samples;
  double base = label_sum / m.samples;
  double entropy = LogLossOf(base, base);
  m.ne = entropy > 0 ? m.logloss / entropy : 0;
  m.calibration = label_sum > 0 ? score_sum / label_sum : 0;

  std::vector<uint32_t> order(scores_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return scores_[a] < scores_[b]; });
  if (!AucOfSorted(order, scores_, labels_, &m.auc)) m.auc = 0.5;
  m.gauc = m.auc;
  if (groups_.size() != scores_.size()) return m;

  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return groups_[a] < groups_[b]; });
  double weighted = 0, weight = 0;
  for (size_t i = 0; i < order.size();) {
    size_t j = i;
    while (j < order.size() && groups_[order[j]] == groups_[order[i]]) ++j;
    double auc;
    if (AucOfSorted(std::span(order).subspan(i, j - i), scores_, labels_, &auc)) {
      weighted += auc * (j - i);
      weight += j - i;
      ++m.gauc_groups;
    }
    i = j;
  }
  if (weight > 0) m.gauc = weighted / weight;
  return m;
}

ModelEvaluation::ModelEvaluation(std::span<const OutputSpec> outputs)
    : outputs_(outputs.begin(), outputs.end()), evaluations_(outputs.size()) {}

void ModelEvaluation::Add(std::span<const float> scores, const Batch& batch) {
  if (batch.rows == 0) return;
  const size_t columns = outputs_.size(), labels = batch.labels.size() / batch.rows;
  for (size_t t = 0; t < columns; ++t) {
    const OutputSpec& output = outputs_[t];
    scores_.clear();
    labels_.clear();
    groups_.clear();
    for (size_t row = 0; row < batch.rows; ++row) {
      if (output.given >= 0 && batch.labels[row * labels + output.given] <= 0.5f) continue;
      scores_.push_back(scores[row * columns + t]);
      labels_.push_back(batch.labels[row * labels + output.label]);
      if (!batch.groups.empty()) groups_.push_back(batch.groups[row]);
    }
    evaluations_[t].Add(scores_, labels_, groups_);
  }
}

std::vector<EvalMetrics> ModelEvaluation::Compute() const {
  std::vector<EvalMetrics> metrics;
  for (size_t t = 0; t < outputs_.size(); ++t) {
    metrics.push_back(evaluations_[t].Compute());
    metrics.back().output = outputs_[t].name;
    metrics.back().probability = outputs_[t].probability;
  }
  return metrics;
}

std::string MetricsJson(const std::vector<EvalMetrics>& metrics) {
  std::string json = FieldsJson(metrics[0]);
  if (metrics.size() == 1) return json;
  for (size_t t = 0; t < metrics.size(); ++t) {
    absl::StrAppend(&json, t == 0 ? ", \"tasks\": {\"" : "}, \"", metrics[t].output, "\": {",
                    FieldsJson(metrics[t]), ", \"samples\": ", metrics[t].samples);
  }
  return json + "}}";
}

RunningAuc::RunningAuc() : positive_(kBins), negative_(kBins) {}

void RunningAuc::Add(std::span<const float> scores, std::span<const float> labels) {
  constexpr double kFade = 0.98;  // A batch loses half its weight in 34 steps.
  for (int b = 0; b < kBins; ++b) {
    positive_[b] *= kFade;
    negative_[b] *= kFade;
  }
  for (size_t i = 0; i < scores.size(); ++i) {
    // Bins are even in the logit, where low click rates spread out.
    double p = std::clamp<double>(scores[i], 1e-7, 1 - 1e-7);
    double logit = std::log(p / (1 - p));
    int bin = std::clamp(static_cast<int>((logit + 16) / 32 * kBins), 0, kBins - 1);
    (labels[i] > 0.5f ? positive_ : negative_)[bin] += 1;
  }
}

double RunningAuc::Value() const {
  double positives = 0, negatives = 0, pairs = 0;
  for (int b = 0; b < kBins; ++b) {
    pairs += positive_[b] * (negatives + 0.5 * negative_[b]);
    positives += positive_[b];
    negatives += negative_[b];
  }
  return positives > 0 && negatives > 0 ? pairs / (positives * negatives) : 0.5;
}

double Judged(const EarlyStopOptions& options, const std::vector<EvalMetrics>& metrics) {
  const auto found = std::find_if(metrics.begin(), metrics.end(), [&](const EvalMetrics& m) {
    return options.has_task() && m.output == options.task();
  });
  const EvalMetrics& m = found == metrics.end() ? metrics[0] : *found;
  if (!m.probability) return -m.rmse;
  switch (options.metric()) {
    case EarlyStopOptions::GAUC:
      return m.gauc;
    case EarlyStopOptions::LOGLOSS:
      return -m.logloss;
    default:
      return m.auc;
  }
}

}  // namespace starling
