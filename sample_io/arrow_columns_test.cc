#include "sample_io/arrow_columns.h"

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/chunked_array.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "sample_io/parquet_test_util.h"
#include "sample_io/source.h"

namespace starling {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Each type goes through a real Parquet file in every way it may be stored.
class StorageTest : public testing::TestWithParam<TestFileOptions> {
 protected:
  Column Read(const std::shared_ptr<arrow::DataType>& type, const std::string& json) {
    const std::string path = FreshDir() + "/a.parquet";
    TestFileOptions options = GetParam();
    WriteParquet(path, *MakeTable({{"c", type, json}}), options);
    auto source = SampleSource::Open({path});
    EXPECT_TRUE(source.ok()) << source.status();
    auto columns = (*source)->Read(0, {"c"});
    EXPECT_TRUE(columns.ok()) << columns.status();
    Column column = columns->columns.at(0);
    EXPECT_EQ(column.name, "c");
    EXPECT_EQ(column.rows, columns->rows);
    return column;
  }
};

TEST_P(StorageTest, IntegersOfEveryWidthWidenToInt64) {
  for (const auto& type : {arrow::int8(), arrow::int16(), arrow::int32(), arrow::int64()}) {
    Column column = Read(type, "[-128, null, 127]");
    EXPECT_EQ(column.type, ColumnType::kInt64);
    EXPECT_FALSE(column.is_list);
    EXPECT_THAT(column.valid, ElementsAre(1, 0, 1));
    EXPECT_EQ(column.ints[0], -128) << type->ToString();
    EXPECT_EQ(column.ints[2], 127);
  }
  for (const auto& type : {arrow::uint8(), arrow::uint16(), arrow::uint32(), arrow::uint64()}) {
    Column column = Read(type, "[0, 255]");
    EXPECT_THAT(column.valid, IsEmpty());
    EXPECT_THAT(column.ints, ElementsAre(0, 255));
  }
  EXPECT_THAT(Read(arrow::uint32(), "[4294967295]").ints, ElementsAre(4294967295));
  EXPECT_THAT(Read(arrow::uint64(), "[18446744073709551615]").ints, ElementsAre(-1));
  EXPECT_THAT(Read(arrow::boolean(), "[true, false]").ints, ElementsAre(1, 0));
}

TEST_P(StorageTest, TimesBecomeWholeSecondsRoundedDown) {
  using arrow::TimeUnit;
  EXPECT_THAT(Read(arrow::timestamp(TimeUnit::SECOND), "[7, -7]").ints, ElementsAre(7, -7));
  EXPECT_THAT(Read(arrow::timestamp(TimeUnit::MILLI), "[1999, -1, null]").ints[0], 1);
  EXPECT_THAT(Read(arrow::timestamp(TimeUnit::MILLI), "[1999, -1]").ints, ElementsAre(1, -1));
  EXPECT_THAT(Read(arrow::timestamp(TimeUnit::MICRO, "UTC"), "[5999999, -1000000]").ints,
              ElementsAre(5, -1));
  EXPECT_THAT(Read(arrow::timestamp(TimeUnit::NANO), "[1700000000999999999]").ints,
              ElementsAre(1700000000));
  EXPECT_THAT(Read(arrow::date32(), "[1, -1]").ints, ElementsAre(86400, -86400));
  EXPECT_THAT(Read(arrow::date64(), "[86400000]").ints, ElementsAre(86400));
}

TEST_P(StorageTest, FloatsAndDecimalsBecomeDoubles) {
  Column column = Read(arrow::float32(), "[0.5, null, -2]");
  EXPECT_EQ(column.type, ColumnType::kDouble);
  EXPECT_EQ(column.doubles[0], 0.5);
  EXPECT_TRUE(column.IsNull(1));
  EXPECT_THAT(Read(arrow::float64(), "[0.1, 1e300]").doubles, ElementsAre(0.1, 1e300));
  EXPECT_THAT(Read(arrow::decimal128(9, 2), "[\"12.34\", \"-0.05\"]").doubles,
              ElementsAre(12.34, -0.05));
  EXPECT_THAT(Read(arrow::decimal256(50, 1), "[\"2.5\", null]").doubles[0], 2.5);
}

TEST_P(StorageTest, StringsKeepTheirBytes) {
  const std::string json = "[\"a\", \"\", null, \"日本\"]";
  for (const auto& type :
       {arrow::utf8(), arrow::large_utf8(), arrow::binary(), arrow::large_binary(),
        arrow::dictionary(arrow::int32(), arrow::utf8())}) {
    Column column = Read(type, json);
    EXPECT_EQ(column.type, ColumnType::kString);
    EXPECT_THAT(column.valid, ElementsAre(1, 1, 0, 1)) << type->ToString();
    EXPECT_EQ(column.strings[0], "a");
    EXPECT_EQ(column.strings[1], "");
    EXPECT_EQ(column.strings[3], "日本");
    EXPECT_THAT(Read(type, "[null, \"b\", null]").valid, ElementsAre(0, 1, 0)) << type->ToString();
  }
}

TEST_P(StorageTest, ListsDropNullElements) {
  for (const auto& make :
       {+[](std::shared_ptr<arrow::DataType> t) { return arrow::list(t); },
        +[](std::shared_ptr<arrow::DataType> t) { return arrow::large_list(t); }}) {
    Column ints = Read(make(arrow::int32()), "[[1, null, 2], [], null, [3]]");
    EXPECT_TRUE(ints.is_list);
    EXPECT_THAT(ints.list_offsets, ElementsAre(0, 2, 2, 2, 3));
    EXPECT_THAT(ints.valid, ElementsAre(1, 1, 0, 1));
    EXPECT_THAT(ints.ints, ElementsAre(1, 2, 3));
    Column strings = Read(make(arrow::utf8()), "[[\"a\", null], [\"b\"]]");
    EXPECT_THAT(strings.strings, ElementsAre("a", "b"));
    EXPECT_THAT(strings.list_offsets, ElementsAre(0, 1, 2));
    EXPECT_THAT(Read(make(arrow::float64()), "[[0.5]]").doubles, ElementsAre(0.5));
  }
}

TEST_P(StorageTest, ListsOfFixedSizeAreLists) {
  Column column = Read(arrow::fixed_size_list(arrow::float32(), 2), "[[0.5, 1], null, [2, 3]]");
  EXPECT_TRUE(column.is_list);
  EXPECT_EQ(column.type, ColumnType::kDouble);
  EXPECT_THAT(column.valid, ElementsAre(1, 0, 1));
  EXPECT_THAT(column.list_offsets, ElementsAre(0, 2, 2, 4));
  EXPECT_THAT(column.doubles, ElementsAre(0.5, 1, 2, 3));
}

TEST_P(StorageTest, MapsKeepKeysWithValues) {
  Column column = Read(arrow::map(arrow::utf8(), arrow::float64()),
                       R"([[["a", 0.5], ["b", null]], null, [], [["c", 2], ["d", 3]]])");
  EXPECT_TRUE(column.is_list);
  EXPECT_THAT(column.valid, ElementsAre(1, 0, 1, 1));
  EXPECT_THAT(column.list_offsets, ElementsAre(0, 1, 1, 1, 3));
  EXPECT_THAT(column.strings, ElementsAre("a", "c", "d"));
  ASSERT_NE(column.items, nullptr);
  EXPECT_EQ(column.items->rows, 3);
  EXPECT_THAT(column.items->doubles, ElementsAre(0.5, 2, 3));
  EXPECT_EQ(ColumnTypeName(column), "map of strings to floating-point numbers");
  EXPECT_EQ(ValueText(column, 3), "{c: 2, d: 3}");
}

TEST_P(StorageTest, MapsMayHoldMaps) {
  Column column = Read(arrow::map(arrow::int64(), arrow::map(arrow::utf8(), arrow::int64())),
                       R"([[[1, [["x", 10], ["y", 11]]], [2, []]], [[3, [["z", 12]]]]])");
  EXPECT_THAT(column.ints, ElementsAre(1, 2, 3));
  EXPECT_THAT(column.list_offsets, ElementsAre(0, 2, 3));
  ASSERT_NE(column.items, nullptr);
  EXPECT_THAT(column.items->list_offsets, ElementsAre(0, 2, 2, 3));
  EXPECT_THAT(column.items->strings, ElementsAre("x", "y", "z"));
  ASSERT_NE(column.items->items, nullptr);
  EXPECT_THAT(column.items->items->ints, ElementsAre(10, 11, 12));
}

TEST_P(StorageTest, AllNullColumnOfAnyTypeIsNullEverywhere) {
  for (const auto& type : {arrow::null(), arrow::int64(), arrow::utf8(), arrow::float64(),
                           arrow::list(arrow::int64())}) {
    Column column = Read(type, "[null, null]");
    EXPECT_THAT(column.valid, ElementsAre(0, 0)) << type->ToString();
  }
}

INSTANTIATE_TEST_SUITE_P(Encodings, StorageTest,
                         testing::Values(TestFileOptions{100, "snappy", true, false},
                                         TestFileOptions{100, "zstd", true, true},
                                         TestFileOptions{100, "gzip", false, true},
                                         TestFileOptions{100, "uncompressed", false, false}),
                         [](const auto& info) {
                           return info.param.compression +
                                  (info.param.dictionary ? "Dictionary" : "Plain");
                         });

TEST(ArrowColumnsTest, ChunksAreJoined) {
  auto first = MakeTable({{"c", arrow::utf8(), "[\"a\"]"}})->column(0)->chunk(0);
  auto second = MakeTable({{"c", arrow::utf8(), "[null, \"b\"]"}})->column(0)->chunk(0);
  Column column;
  ASSERT_TRUE(FromArrow(std::make_shared<arrow::ChunkedArray>(
                            arrow::ArrayVector{first, second, second->Slice(1)}),
                        &column)
                  .ok());
  EXPECT_THAT(column.valid, ElementsAre(1, 0, 1, 1));
  EXPECT_EQ(column.strings[0], "a");
  EXPECT_EQ(column.strings[2], "b");
  EXPECT_EQ(column.strings[3], "b");
  EXPECT_EQ(column.rows, 4);
}

template <typename T>
std::shared_ptr<arrow::Buffer> Bytes(const std::vector<T>& values) {
  return arrow::Buffer::FromString(
      std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)));
}

// Arrays whose offsets or indices lie, as a damaged file may yield.
TEST(ArrowColumnsTest, LyingOffsetsAndIndicesAreRefused) {
  auto convert = [](const std::shared_ptr<arrow::Array>& array) {
    Column column;
    return FromArrow(std::make_shared<arrow::ChunkedArray>(array), &column);
  };
  auto strings = std::make_shared<arrow::StringArray>(2, Bytes<int32_t>({0, 1000000, 2}),
                                                      arrow::Buffer::FromString("ab"));
  EXPECT_EQ(convert(strings).code(), absl::StatusCode::kDataLoss);
  auto values = MakeTable({{"c", arrow::int64(), "[1, 2]"}})->column(0)->chunk(0);
  auto lists = std::make_shared<arrow::ListArray>(arrow::list(arrow::int64()), 2,
                                                  Bytes<int32_t>({0, 1000000, 2}), values);
  EXPECT_EQ(convert(lists).code(), absl::StatusCode::kDataLoss);
  auto backwards = std::make_shared<arrow::ListArray>(arrow::list(arrow::int64()), 2,
                                                      Bytes<int32_t>({0, -5, 2}), values);
  EXPECT_EQ(convert(backwards).code(), absl::StatusCode::kDataLoss);
  auto map = std::make_shared<arrow::MapArray>(arrow::map(arrow::int64(), arrow::int64()), 2,
                                               Bytes<int32_t>({0, 1000000, 2}), values, values);
  EXPECT_EQ(convert(map).code(), absl::StatusCode::kDataLoss);
  auto indices = MakeTable({{"c", arrow::int32(), "[0, 7]"}})->column(0)->chunk(0);
  auto dictionary = std::make_shared<arrow::DictionaryArray>(
      arrow::dictionary(arrow::int32(), arrow::int64()), indices, values);
  EXPECT_EQ(convert(dictionary).code(), absl::StatusCode::kDataLoss);
}

TEST(ArrowColumnsTest, SlicesAndChunksOfMapsKeepTheirEntries) {
  auto whole =
      MakeTable({{"c", arrow::map(arrow::int64(), arrow::map(arrow::utf8(), arrow::int64())),
                  R"([[[1, [["a", 10]]]], [[2, []], [3, [["b", 11], ["c", 12]]]], []])"}})
          ->column(0)
          ->chunk(0);
  Column column;
  ASSERT_TRUE(FromArrow(std::make_shared<arrow::ChunkedArray>(
                            arrow::ArrayVector{whole->Slice(1, 2), whole->Slice(0, 2)}),
                        &column)
                  .ok());
  ASSERT_EQ(column.rows, 4);
  EXPECT_EQ(ValueText(column, 0), "{2: {}, 3: {b: 11, c: 12}}");
  EXPECT_EQ(ValueText(column, 1), "{}");
  EXPECT_EQ(ValueText(column, 2), "{1: {a: 10}}");
  EXPECT_EQ(ValueText(column, 3), "{2: {}, 3: {b: 11, c: 12}}");
}

TEST(ArrowColumnsTest, MapsWithoutAPlaceAreRefused) {
  for (const auto& [type, json] :
       std::vector<std::pair<std::shared_ptr<arrow::DataType>, const char*>>{
           {arrow::map(arrow::int64(), arrow::list(arrow::int64())), "[[[1, [2]]]]"},
           {arrow::map(arrow::float64(), arrow::int64()), "[[[1.5, 2]]]"},
           {arrow::map(arrow::int64(),
                       arrow::map(arrow::int64(), arrow::map(arrow::int64(), arrow::int64()))),
            "[[[1, [[2, [[3, 4]]]]]]]"}}) {
    Column column;
    EXPECT_EQ(FromArrow(MakeTable({{"c", type, json}})->column(0), &column).code(),
              absl::StatusCode::kInvalidArgument)
        << type->ToString();
  }
}

}  // namespace
}  // namespace starling
