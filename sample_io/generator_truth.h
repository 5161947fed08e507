// What the best model could reach on generated rows, by their true probabilities.
#pragma once

#include <cstdint>
#include <vector>

#include "sample_io/generator.h"

namespace starling {

// Sums over the rows of one day, or of a part.
class TruthSums {
 public:
  double logloss = 0;

  void Add(double probability, bool click);
  void Add(const TruthSums& other);
  PartTruth Truth() const;

 private:
  static constexpr int kBins = 1 << 16;  // Of probability: ties inside a bin count half.
  std::vector<int64_t> clicks_ = std::vector<int64_t>(kBins);
  std::vector<int64_t> others_ = std::vector<int64_t>(kBins);
};

}  // namespace starling
