#include "sample_io/planted_slots.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace starling {
namespace {

constexpr double kBias = -1.4;
constexpr int64_t kHead = 200;     // Ids of a slot that have an effect, from the most frequent on.
constexpr double kSingle = 0.15;   // Deviation of the effect of one id of a single slot,
constexpr double kListItem = 0.8;  // and of one of a list; their mean counts.

enum Stream : uint64_t { kRank = 2000, kLength = 2200, kEffect = 2400, kClick = 2600 };
uint64_t Key(uint64_t seed, uint64_t stream, int i) { return Mix64(Mix64(seed) + stream + i); }

}  // namespace

// Lists have the most ids; the single slots' rise evenly by their logarithm.
int64_t PlantedSlots::Cardinality(int s) {
  if (s >= kSingles) return 1'000'000;
  return static_cast<int64_t>(std::lround(100 * std::pow(10'000.0, s / (kSingles - 1.0))));
}

PlantedSlots::PlantedSlots(uint64_t seed) : seed_(seed) {
  for (int s = 0; s < kSlots; ++s) {
    cardinality_[s] = Cardinality(s);
    log_cardinality_[s] = std::log(static_cast<double>(cardinality_[s] + 1));
  }
}

// Zipf's law with exponent 1, by inversion of its continuous form.
int64_t PlantedSlots::DrawRank(int slot, int64_t draw) const {
  const double u = RandomUniform(Key(seed_, kRank, slot), draw);
  const auto rank = static_cast<int64_t>(std::exp(u * log_cardinality_[slot])) - 1;
  return std::min(rank, cardinality_[slot] - 1);
}

// One to one, since the factor is a prime beyond all cardinalities.
int64_t PlantedSlots::IdOf(int slot, int64_t rank) const {
  return rank * 982'451'653 % cardinality_[slot];
}

double PlantedSlots::Effect(int slot, int64_t rank) const {
  return rank < kHead ? RandomNormal(Key(seed_, kEffect, slot), rank) : 0;
}

double PlantedSlots::Logit(int64_t row, Row* out) const {
  double logit = kBias;
  for (int s = 0; s < kSingles; ++s) {
    const int64_t rank = DrawRank(s, row);
    out->singles[s] = IdOf(s, rank);
    logit += kSingle * Effect(s, rank);
  }
  for (int l = 0; l < kLists; ++l) {
    std::vector<int64_t>& ids = out->lists[l];
    ids.resize(kListMin + RandomBelow(Key(seed_, kLength, l), row, kListMax - kListMin + 1));
    double sum = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      const int64_t rank = DrawRank(kSingles + l, row * kListMax + static_cast<int64_t>(i));
      ids[i] = IdOf(kSingles + l, rank);
      sum += Effect(kSingles + l, rank);
    }
    logit += kListItem * sum / static_cast<double>(ids.size());
  }
  return logit;
}

void PlantedSlots::Fill(int64_t row, Row* out) const {
  out->probability = 1 / (1 + std::exp(-Logit(row, out)));
  out->click = RandomUniform(Key(seed_, kClick, 0), row) < out->probability;
}

}  // namespace starling
