#include "scheduler/evaluation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

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
  double loss = 0, score_sum = 0, label_sum = 0;
  for (size_t i = 0; i < scores_.size(); ++i) {
    loss += LogLossOf(scores_[i], labels_[i]);
    score_sum += scores_[i];
    label_sum += labels_[i];
  }
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

}  // namespace starling
