#include "dense_net/item_sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"

namespace starling {

using Softmax = LossOptions::SampledSoftmax;

void DrawChances(Softmax::Sampler sampler, std::span<const double> frequencies,
                 std::vector<double>* chances) {
  const size_t n = frequencies.size();
  chances->assign(n, 1);
  if (sampler == Softmax::FREQUENCY) chances->assign(frequencies.begin(), frequencies.end());
  if (sampler == Softmax::LOG_UNIFORM) {
    static thread_local std::vector<uint32_t> order;
    order.resize(n);
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return frequencies[a] != frequencies[b] ? frequencies[a] > frequencies[b] : a < b;
    });
    for (size_t rank = 0; rank < n; ++rank) {
      (*chances)[order[rank]] = std::log1p(1 / (static_cast<double>(rank) + 1));
    }
  }
  const double sum = std::accumulate(chances->begin(), chances->end(), 0.0);
  for (double& chance : *chances) chance /= sum;
}

void DrawItems(std::span<const double> chances, int n, uint64_t seed,
               std::vector<uint32_t>* drawn) {
  static thread_local std::vector<double> up_to;
  up_to.resize(chances.size());
  std::partial_sum(chances.begin(), chances.end(), up_to.begin());
  drawn->assign(chances.size(), 0);
  for (int i = 0; i < n; ++i) {
    const double at = RandomUniform(seed, i) * up_to.back();
    const auto item = std::upper_bound(up_to.begin(), up_to.end(), at) - up_to.begin();
    ++(*drawn)[std::min<size_t>(item, chances.size() - 1)];
  }
}

}  // namespace starling
