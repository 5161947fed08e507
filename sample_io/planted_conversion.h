// PlantedConversion: which clicks of a PlantedModel lead to a conversion. The
// chance, given a click, follows from the ids of the fields that have few: other
// effects than those on the click, so that a model of two tasks has two to learn.
//
// Every value is a function of (seed, row). A const object; thread-safe.
#pragma once

#include <cstdint>

#include "sample_io/planted_model.h"

namespace starling {

class PlantedConversion {
 public:
  static constexpr int64_t kCardinalityMax = 30;  // Of a field whose ids bear on a conversion.

  explicit PlantedConversion(uint64_t seed) : seed_(seed) {}

  // Of a click of this row.
  double Probability(const PlantedModel::Row& row) const;
  // Never without a click.
  bool Converts(int64_t row_number, const PlantedModel::Row& row) const;

 private:
  const uint64_t seed_;
};

}  // namespace starling
