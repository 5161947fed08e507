#include "sample_io/mixing.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

namespace starling {
namespace {

double Correlation(const std::vector<double>& x, const std::vector<double>& y) {
  const auto n = static_cast<double>(x.size());
  double sx = 0, sy = 0, sxx = 0, syy = 0, sxy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    sx += x[i];
    sy += y[i];
    sxx += x[i] * x[i];
    syy += y[i] * y[i];
    sxy += x[i] * y[i];
  }
  const double spread = (sxx - sx * sx / n) * (syy - sy * sy / n);
  return spread > 0 ? (sxy - sx * sy / n) / std::sqrt(spread) : 0;
}

}  // namespace

bool Mixing::poor() const {
  // A correlation of n random pairs is beyond 3 / sqrt(n) once in some hundred.
  const double chance = 3 / std::sqrt(static_cast<double>(std::max<int64_t>(splits, 1)));
  return partitions > 1 && (std::fabs(order_correlation) > std::max(0.5, chance) ||
                            (splits > 2 * partitions && same_share > 0.5 + chance_share / 2));
}

Mixing MixingOf(const std::vector<Split>& splits, const std::vector<uint32_t>& order,
                uint32_t shard, uint32_t shards) {
  std::map<std::string, int> numbers;  // By directory, in the order of names.
  auto directory = [](const Split& split) { return split.file.substr(0, split.file.rfind('/')); };
  for (const Split& split : splits) numbers[directory(split)] = 0;
  int next = 0;
  for (auto& [name, number] : numbers) number = next++;
  std::vector<double> places, partitions;
  std::vector<double> counts(numbers.size(), 0);
  for (size_t i = shard; i < order.size(); i += shards) {
    const int partition = numbers[directory(splits[order[i]])];
    ++counts[partition];
    places.push_back(static_cast<double>(i));
    partitions.push_back(partition);
  }
  Mixing out;
  out.splits = static_cast<int64_t>(places.size());
  out.order_correlation = Correlation(places, partitions);
  for (size_t i = 1; i < partitions.size(); ++i)
    out.same_share += partitions[i] == partitions[i - 1];
  const double n = std::max<double>(1, static_cast<double>(places.size()));
  out.same_share /= std::max(1.0, n - 1);
  for (double count : counts) {
    out.partitions += count > 0;
    out.chance_share += (count / n) * (count / n);
  }
  return out;
}

}  // namespace starling
