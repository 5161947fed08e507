#include "sample_io/row_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace starling {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Column Numbers(const std::string& name, std::vector<double> values) {
  Column column;
  column.name = name;
  column.type = ColumnType::kDouble;
  column.rows = static_cast<int64_t>(values.size());
  column.doubles = std::move(values);
  return column;
}

struct RowFieldsTest : testing::Test {
  RowFieldsTest() {
    features.set_label("click");
    features.add_more_labels("buy");
    features.add_more_labels("seconds");
    features.add_number_labels("seconds");
    features.set_weight("w");
    columns.rows = 3;
    columns.columns = {Numbers("click", {1, 0, 1}), Numbers("buy", {0, 0, 1}),
                       Numbers("seconds", {12.5, -3, 0}), Numbers("w", {1, 0, 2.5})};
  }
  // The column at fault of each row; "" for a good one.
  std::vector<std::string> Faults() {
    auto fields = RowFields::Find(features, columns);
    EXPECT_TRUE(fields.ok()) << fields.status();
    std::vector<std::string> faults;
    const std::vector<int64_t> rows = {0, 1, 2};
    std::vector<uint8_t> good(3, 1);
    fields->Check(rows, {}, good);
    for (int64_t row : rows) {
      const std::optional<BadRow> bad = fields->WhyBad(row);
      EXPECT_EQ(good[row] == 1, !bad.has_value()) << row;
      faults.push_back(bad ? bad->column + ": " + bad->reason : "");
    }
    return faults;
  }
  FeatureSet features;
  ColumnBatch columns;
};

TEST_F(RowFieldsTest, LabelsStandRowByRowInTheirOrder) {
  EXPECT_THAT(LabelsOf(features), ElementsAre("click", "buy", "seconds"));
  EXPECT_THAT(Faults(), ElementsAre("", "", ""));
  Batch batch;
  const std::vector<int64_t> kept = {2, 0};
  RowFields::Find(features, columns)->Fill(kept, &batch);
  EXPECT_THAT(batch.labels, ElementsAre(1, 1, 0, 1, 0, 12.5));
  EXPECT_THAT(batch.weights, ElementsAre(2.5, 1));
}

TEST_F(RowFieldsTest, OnlyANumberLabelMayLeaveZeroToOne) {
  columns.columns[1].doubles[0] = 2;
  columns.columns[2].doubles[1] = std::numeric_limits<double>::infinity();
  EXPECT_THAT(Faults(), ElementsAre("buy: the label is 2, not in 0..1",
                                    "seconds: the label is inf, not a finite 32-bit number", ""));
}

TEST_F(RowFieldsTest, AWeightIsFiniteAndNotBelowZero) {
  columns.columns[3].doubles = {-1, std::numeric_limits<double>::quiet_NaN(), 1};
  columns.columns[3].valid = {1, 1, 0};
  EXPECT_THAT(Faults(), ElementsAre("w: the weight is -1, not a finite number of 0 or more",
                                    "w: the weight is nan, not a finite number of 0 or more",
                                    "w: the weight is null"));
}

TEST_F(RowFieldsTest, AnAbsentFieldIsNamed) {
  columns.columns.pop_back();
  EXPECT_EQ(RowFields::Find(features, columns).status().message(),
            "column w (the weight) is not in the data");
}

TEST_F(RowFieldsTest, WithoutFieldsEveryRowIsGoodAndTheBatchHasNone) {
  Batch batch;
  batch.labels = {1};
  batch.weights = {1};
  const std::vector<int64_t> kept = {0};
  std::vector<uint8_t> good = {1};
  RowFields fields;
  fields.Check(kept, {}, good);
  EXPECT_EQ(good[0], 1);
  fields.Fill(kept, &batch);
  EXPECT_THAT(batch.labels, IsEmpty());
  EXPECT_THAT(batch.weights, IsEmpty());
}

}  // namespace
}  // namespace starling
