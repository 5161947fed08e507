#include "sample_io/planted_conversion.h"

#include <cmath>

#include "base/random.h"

namespace starling {
namespace {

constexpr double kBias = -1, kEffect = 0.7;

enum Stream : uint64_t { kDraw = 2000, kFieldEffect };
uint64_t Key(uint64_t seed, uint64_t stream) { return Mix64(Mix64(seed) + stream); }

}  // namespace

double PlantedConversion::Probability(const PlantedModel::Row& row) const {
  double logit = kBias;
  for (int f = 0; f < PlantedModel::kIds; ++f) {
    if (PlantedModel::kCardinalities[f] > kCardinalityMax || row.ids[f] < 0) continue;
    logit += kEffect * RandomNormal(Key(seed_, kFieldEffect + f), row.ids[f]);
  }
  return 1 / (1 + std::exp(-logit));
}

bool PlantedConversion::Converts(int64_t row_number, const PlantedModel::Row& row) const {
  return row.click && RandomUniform(Key(seed_, kDraw), row_number) < Probability(row);
}

}  // namespace starling
