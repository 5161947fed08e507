#include "sample_io/columns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace starling {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

ColumnBatch ThreeRows() {
  ColumnBatch batch;
  batch.rows = 3;
  batch.columns.resize(3);
  Column& ints = batch.columns[0];
  ints.name = "i";
  ints.rows = 3;
  ints.ints = {10, 11, 12};
  ints.valid = {1, 0, 1};
  Column& strings = batch.columns[1];
  strings.name = "s";
  strings.rows = 3;
  strings.type = ColumnType::kString;
  strings.strings = {"a", "b", "c"};
  Column& lists = batch.columns[2];
  lists.name = "l";
  lists.rows = 3;
  lists.is_list = true;
  lists.type = ColumnType::kDouble;
  lists.list_offsets = {0, 2, 2, 3};
  lists.doubles = {0.5, 1.5, 2.5};
  return batch;
}

TEST(ColumnsTest, FindGivesTheColumnOrNull) {
  ColumnBatch batch = ThreeRows();
  EXPECT_EQ(batch.Find("s"), &batch.columns[1]);
  EXPECT_EQ(batch.Find("none"), nullptr);
}

TEST(ColumnsTest, ReorderMovesValuesNullsAndLists) {
  ColumnBatch batch = ThreeRows();
  Reorder({2, 0, 1}, &batch);
  EXPECT_THAT(batch.columns[0].ints, ElementsAre(12, 10, 11));
  EXPECT_THAT(batch.columns[0].valid, ElementsAre(1, 1, 0));
  EXPECT_THAT(batch.columns[1].strings, ElementsAre("c", "a", "b"));
  EXPECT_THAT(batch.columns[1].valid, IsEmpty());
  EXPECT_THAT(batch.columns[2].list_offsets, ElementsAre(0, 1, 3, 3));
  EXPECT_THAT(batch.columns[2].doubles, ElementsAre(2.5, 0.5, 1.5));
}

TEST(ColumnsTest, ReorderMovesMapsAndTheMapsInThem) {
  ColumnBatch batch;
  batch.rows = 2;
  Column& outer = batch.columns.emplace_back();
  outer.rows = 2;
  outer.is_list = true;
  outer.list_offsets = {0, 1, 3};
  outer.ints = {1, 2, 3};
  outer.items = std::make_shared<Column>();
  Column& inner = *outer.items;
  inner.rows = 3;
  inner.is_list = true;
  inner.list_offsets = {0, 2, 2, 3};
  inner.ints = {10, 11, 12};
  inner.items = std::make_shared<Column>();
  inner.items->rows = 3;
  inner.items->ints = {100, 110, 120};
  EXPECT_EQ(ValueText(outer, 1), "{2: {}, 3: {12: 120}}");
  Reorder({1, 0}, &batch);
  EXPECT_EQ(ValueText(outer, 0), "{2: {}, 3: {12: 120}}");
  EXPECT_EQ(ValueText(outer, 1), "{1: {10: 100, 11: 110}}");
}

TEST(ColumnsTest, TextsAreAsAPersonWouldWriteThem) {
  ColumnBatch batch = ThreeRows();
  EXPECT_EQ(ValueText(batch.columns[0], 0), "10");
  EXPECT_EQ(ValueText(batch.columns[1], 2), "c");
  EXPECT_EQ(ValueText(batch.columns[2], 0), "[0.5, 1.5]");
  EXPECT_EQ(ValueText(batch.columns[2], 1), "[]");
  EXPECT_EQ(ColumnTypeName(batch.columns[0]), "integer");
  EXPECT_EQ(ColumnTypeName(batch.columns[2]), "list of floating-point numbers");
}

}  // namespace
}  // namespace starling
