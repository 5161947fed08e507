#include "dense_net/item_frequency.h"

#include <algorithm>
#include <cmath>

namespace starling {

ItemFrequency AddItemFrequency(GraphBuilder* graph, const std::string& name, double rate,
                               int buckets) {
  auto statistic = [&](const char* what, int cols) {
    return graph->AddParam(name + what, 1, cols, Init::kZero, false, true);
  };
  ItemFrequency frequency{.buckets = buckets, .rate = rate};
  frequency.steps = statistic(".steps", 1);
  frequency.last = statistic(".last", buckets);
  frequency.gap = statistic(".gap", buckets);
  return frequency;
}

void BeginItems(const ItemFrequency& frequency, Real* additions) {
  additions[frequency.steps] = 1;
  std::fill_n(additions + frequency.last, frequency.buckets, Real{0});
  std::fill_n(additions + frequency.gap, frequency.buckets, Real{0});
}

double SeeItem(const ItemFrequency& frequency, uint64_t id, const Real* params, Real* additions) {
  const auto bucket = static_cast<int64_t>(id % static_cast<uint64_t>(frequency.buckets));
  const int64_t last = frequency.last + bucket, gap = frequency.gap + bucket;
  const double now = double{params[frequency.steps]} + 1, before = params[last];
  if (additions[last] == 0) {
    const double mean = before == 0 ? now
                                    : (1 - frequency.rate) * params[gap] +
                                          frequency.rate * std::max(1.0, now - before);
    additions[last] = static_cast<Real>(now - before);
    additions[gap] = static_cast<Real>(mean - params[gap]);
  }
  return -std::log(std::max(1.0, double{params[gap]} + additions[gap]));
}

}  // namespace starling
