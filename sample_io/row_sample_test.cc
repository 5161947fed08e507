#include "sample_io/row_sample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace starling {
namespace {

using testing::HasSubstr;

SampleOptions Options(double rate, bool replacement, bool weighted = false) {
  SampleOptions options;
  options.set_rate(rate);
  options.set_replacement(replacement);
  if (weighted) options.set_weight("w");
  return options;
}

Column Weights(std::vector<double> values) {
  Column column;
  column.name = "w";
  column.type = ColumnType::kDouble;
  column.rows = static_cast<int64_t>(values.size());
  column.doubles = std::move(values);
  return column;
}

std::map<int64_t, int> Times(const std::vector<int64_t>& rows) {
  std::map<int64_t, int> times;
  for (int64_t row : rows) ++times[row];
  return times;
}

TEST(RowSampleTest, WithoutReplacementTakesTheRateOfRowsEachOnce) {
  const auto sample = *SampleRows(Options(0.3, false), nullptr, 20000, 1);
  EXPECT_NEAR(static_cast<double>(sample.rows.size()), 6000, 4 * std::sqrt(20000 * 0.3 * 0.7));
  for (const auto& [row, times] : Times(sample.rows)) EXPECT_EQ(times, 1);
  EXPECT_TRUE(std::is_sorted(sample.rows.begin(), sample.rows.end()));
}

// Counts of one row follow Poisson's law: mean, variance and share of zeros.
TEST(RowSampleTest, WithReplacementTakesRowsAPoissonNumberOfTimes) {
  for (double rate : {0.5, 1.0, 3.0, 40.0}) {
    const int64_t rows = rate > 10 ? 100 : 20000;
    Column weights = Weights(std::vector<double>(rows, rate));
    const auto sample = *SampleRows(Options(1, true, true), &weights, rows, 2);
    const auto n = static_cast<double>(rows);
    double squares = 0;
    const auto times = Times(sample.rows);
    for (const auto& [row, t] : times) squares += t * t;
    const double mean = static_cast<double>(sample.rows.size()) / n;
    EXPECT_NEAR(mean, rate, 4 * std::sqrt(rate / n));
    EXPECT_NEAR(squares / n - mean * mean, rate, rate * 8 / std::sqrt(n) + 0.05);
    EXPECT_NEAR(1 - static_cast<double>(times.size()) / n, std::exp(-rate), 0.02);
  }
}

TEST(RowSampleTest, WeightsMultiplyTheRate) {
  std::vector<double> values;
  for (int i = 0; i < 30000; ++i) values.push_back(i % 3);  // 0, 1, 2.
  Column weights = Weights(values);
  for (bool replacement : {false, true}) {
    const auto sample = *SampleRows(Options(0.25, replacement, true), &weights, 30000, 3);
    int counts[3] = {};
    for (int64_t row : sample.rows) ++counts[row % 3];
    EXPECT_EQ(counts[0], 0);
    EXPECT_NEAR(counts[1], 2500, 250);
    EXPECT_NEAR(counts[2], 5000, 350);
  }
}

TEST(RowSampleTest, IsAFunctionOfTheKeyAlone) {
  auto rows = [](uint64_t key) { return SampleRows(Options(0.5, true), nullptr, 500, key)->rows; };
  EXPECT_EQ(rows(1), rows(1));
  EXPECT_NE(rows(1), rows(2));
}

TEST(RowSampleTest, UnfitWeightsAreToldRowByRow) {
  Column weights = Weights({1, std::nan(""), -1, 1e9, 5, INFINITY});
  weights.valid = {1, 1, 1, 1, 0, 1};
  const auto sample = *SampleRows(Options(1, false, true), &weights, 6, 1);
  EXPECT_THAT(sample.rows, testing::ElementsAre(0));
  ASSERT_EQ(sample.unfit.size(), 5u);
  EXPECT_EQ(sample.unfit[0].row, 1);
  EXPECT_THAT(sample.unfit[1].reason, HasSubstr("the weight is -1"));
  EXPECT_THAT(sample.unfit[2].reason, HasSubstr("more than 1000"));
  EXPECT_EQ(sample.unfit[3].reason, "the weight is null");
}

TEST(RowSampleTest, TakingFarMoreRowsThanThereAreFails) {
  Column weights = Weights(std::vector<double>(5000, 100));
  EXPECT_THAT(SampleRows(Options(1, true, true), &weights, 5000, 1).status().message(),
              HasSubstr("lower data.sample.rate"));
}

}  // namespace
}  // namespace starling
