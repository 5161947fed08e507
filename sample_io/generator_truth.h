// What the best model could reach on generated rows, by their true probabilities.
#pragma once

#include <cstdint>
#include <string>
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

// Of one day, or of a part.
struct TruthLoss {
  double click = 0, conversion = 0;
};
struct DayTruth {
  TruthSums click, conversion;
  void Add(const DayTruth& other);
  // Losses apart, since the order in which they are added is the days'.
  TruthLoss TakeLoss();
  void AddLoss(const TruthLoss& loss);
};

// As in TRUTH.json.
std::string ReportJson(const GeneratorOptions& options, const GeneratorReport& report);

}  // namespace starling
