#include "sample_io/generator_truth.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace starling {

void TruthSums::Add(double probability, bool click) {
  ++(click ? clicks_ : others_)[std::min(kBins - 1, static_cast<int>(probability * kBins))];
  logloss -= std::log(click ? probability : 1 - probability);
}

void TruthSums::Add(const TruthSums& other) {
  for (int b = 0; b < kBins; ++b) clicks_[b] += other.clicks_[b];
  for (int b = 0; b < kBins; ++b) others_[b] += other.others_[b];
  logloss += other.logloss;
}

PartTruth TruthSums::Truth() const {
  PartTruth truth;
  double below = 0, wins = 0;  // Non-clicks under this bin; pairs in the right order.
  for (int b = 0; b < kBins; ++b) {
    wins += static_cast<double>(clicks_[b]) * (below + 0.5 * others_[b]);
    below += others_[b];
    truth.clicks += clicks_[b];
    truth.rows += clicks_[b] + others_[b];
  }
  if (truth.clicks > 0 && below > 0) truth.auc = wins / (truth.clicks * below);
  if (truth.rows > 0) truth.logloss = logloss / truth.rows;
  return truth;
}

void DayTruth::Add(const DayTruth& other) {
  click.Add(other.click);
  conversion.Add(other.conversion);
}

TruthLoss DayTruth::TakeLoss() {
  return {std::exchange(click.logloss, 0), std::exchange(conversion.logloss, 0)};
}

void DayTruth::AddLoss(const TruthLoss& loss) {
  click.logloss += loss.click;
  conversion.logloss += loss.conversion;
}

std::string ReportJson(const GeneratorOptions& options, const GeneratorReport& report) {
  auto part = [&](const PartTruth& click, const PartTruth& conversion) {
    nlohmann::ordered_json json{{"rows", click.rows},
                                {"clicks", click.clicks},
                                {"best_auc", click.auc},
                                {"best_logloss", click.logloss}};
    if (options.conversions) {
      json["conversions"] = conversion.clicks;
      json["best_conversion_auc"] = conversion.auc;
      json["best_conversion_logloss"] = conversion.logloss;
    }
    return json;
  };
  nlohmann::ordered_json json{{"seed", options.seed},
                              {"days", options.days},
                              {"train", part(report.train, report.train_conversions)},
                              {"eval", part(report.eval, report.eval_conversions)}};
  for (const FieldShares& field : report.shares) {
    json["unique_shares"].push_back({{"written", field.written}, {"fitted", field.fitted}});
  }
  return json.dump();
}

}  // namespace starling
