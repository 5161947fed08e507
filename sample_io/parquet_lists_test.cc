// Numbers in lists, read from Parquet's pages, are those that Arrow itself reads: held
// against an Arrow IPC file of the same table, whole and in pieces.
#include <arrow/io/file.h>
#include <arrow/ipc/writer.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/random.h"
#include "sample_io/parquet_test_util.h"
#include "sample_io/source.h"

namespace starling {
namespace {

constexpr int kRows = 3000;

// JSON of random values, with nulls at every level.
class Json {
 public:
  explicit Json(uint64_t seed) : seed_(seed) {}
  uint64_t Below(uint64_t n) { return RandomBelow(seed_, ++at_, n); }
  std::string Number() { return Below(7) == 0 ? "null" : absl::StrCat(Below(1000)); }
  std::string List(const std::function<std::string()>& element) {
    if (Below(9) == 0) return "null";
    std::vector<std::string> elements(Below(5));
    for (std::string& e : elements) e = element();
    return absl::StrCat("[", absl::StrJoin(elements, ","), "]");
  }
  std::string Struct(const std::vector<std::pair<std::string, std::string>>& members) {
    if (Below(8) == 0) return "null";
    return absl::StrCat("{",
                        absl::StrJoin(members, ",",
                                      [](std::string* out, const auto& m) {
                                        absl::StrAppend(out, "\"", m.first, "\":", m.second);
                                      }),
                        "}");
  }

 private:
  const uint64_t seed_;
  uint64_t at_ = 0;
};

TestColumn Random(const std::string& name, std::shared_ptr<arrow::DataType> type,
                  const std::function<std::string(Json*)>& value) {
  Json json(name.size() * 31 + name[0]);
  std::vector<std::string> rows(kRows);
  for (std::string& row : rows) row = value(&json);
  return {name, std::move(type), absl::StrCat("[", absl::StrJoin(rows, ","), "]")};
}

std::shared_ptr<arrow::Table> TestTable() {
  auto numbers = [](Json* j) { return j->List([j] { return j->Number(); }); };
  auto impression =
      arrow::struct_({arrow::field("item", arrow::int64()), arrow::field("price", arrow::float32()),
                      arrow::field("at", arrow::struct_({arrow::field("place", arrow::int32())}))});
  return MakeTable({
      Random("longs", arrow::list(arrow::int64()), numbers),
      Random("ints", arrow::large_list(arrow::int32()), numbers),
      Random("floats", arrow::list(arrow::float32()), numbers),
      Random("doubles", arrow::list(arrow::field("item", arrow::float64(), false)),
             [](Json* j) { return j->List([j] { return absl::StrCat(j->Below(50)); }); }),
      Random("user", arrow::struct_({arrow::field("seen", arrow::list(arrow::int64()))}),
             [&](Json* j) {
               return j->Struct({{"seen", numbers(j)}});
             }),
      Random("impressions", arrow::list(impression),
             [](Json* j) {
               return j->List([j] {
                 return j->Struct({{"item", j->Number()},
                                   {"price", j->Number()},
                                   {"at", j->Struct({{"place", j->Number()}})}});
               });
             }),
  });
}

void WriteIpc(const std::string& path, const arrow::Table& table) {
  auto file = arrow::io::FileOutputStream::Open(path).ValueOrDie();
  auto writer = arrow::ipc::MakeFileWriter(file, table.schema()).ValueOrDie();
  ASSERT_TRUE(writer->WriteTable(table).ok());
  ASSERT_TRUE(writer->Close().ok());
}

// Row by row of the file: the elements of the list, or the members of its structs.
std::vector<std::string> Texts(const Column& column) {
  std::vector<std::string> texts;
  auto text = [&](int64_t row) {
    return column.IsNull(row) ? std::string("null") : ValueText(column, row);
  };
  if (column.outer_offsets.empty()) {
    for (int64_t row = 0; row < column.rows; ++row) texts.push_back(text(row));
    return texts;
  }
  for (size_t row = 0; row + 1 < column.outer_offsets.size(); ++row) {
    texts.emplace_back("of");
    for (int64_t i = column.outer_offsets[row]; i < column.outer_offsets[row + 1]; ++i) {
      absl::StrAppend(&texts.back(), " ", text(i));
    }
  }
  return texts;
}

// By column, all of them read together.
std::vector<std::vector<std::string>> ReadTexts(const SampleSource& source,
                                                const std::vector<std::string>& columns) {
  std::vector<std::vector<std::string>> all(columns.size());
  ColumnBatch spent;
  for (size_t s = 0; s < source.splits().size(); ++s) {
    auto batch = source.ReadReusing(static_cast<int>(s), columns, std::move(spent));
    EXPECT_TRUE(batch.ok()) << batch.status();
    if (!batch.ok()) return all;
    for (size_t c = 0; c < columns.size(); ++c) {
      EXPECT_EQ(batch->columns[c].by_request, false);
      for (std::string& text : Texts(batch->columns[c])) all[c].push_back(std::move(text));
    }
    spent = *std::move(batch);  // Its values must not show in the next.
  }
  return all;
}

std::vector<std::string> ReadTexts(const SampleSource& source, const std::string& column) {
  return ReadTexts(source, std::vector<std::string>{column})[0];
}

const std::vector<std::string> kColumns = {"longs",
                                           "ints",
                                           "floats",
                                           "doubles",
                                           "user.seen",
                                           "impressions.item",
                                           "impressions.price",
                                           "impressions.at.place"};

TEST(ParquetListsTest, NumbersInListsAreThoseOfArrow) {
  const std::string dir = FreshDir();
  const auto table = TestTable();
  WriteIpc(dir + "/a.arrow", *table);
  const auto arrow = *SampleSource::Open({dir + "/a.arrow"});
  for (const bool dictionary : {true, false}) {
    WriteParquet(dir + "/a.parquet", *table,
                 {.row_group_rows = 2000, .dictionary = dictionary, .page_bytes = 500});
    const auto whole = *SampleSource::Open({dir + "/a.parquet"});
    const auto pieces = *SampleSource::Open({dir + "/a.parquet"}, {.read_memory = 256 << 10});
    ASSERT_GT(pieces->splits().size(), whole->splits().size() + 3);
    for (const std::string& column : kColumns) {
      const std::vector<std::string> expected = ReadTexts(*arrow, column);
      ASSERT_EQ(expected.size(), static_cast<size_t>(kRows));
      EXPECT_EQ(ReadTexts(*whole, column), expected) << column;
      EXPECT_EQ(ReadTexts(*pieces, column), expected) << column << " in pieces";
    }
  }
}

// Where rows begin is found once for columns that agree on it; lists of other lengths do not.
TEST(ParquetListsTest, ColumnsReadTogetherAreThoseReadAlone) {
  const std::string dir = FreshDir();
  const auto table = TestTable();
  for (const int64_t page_bytes : {500, 1 << 20}) {
    WriteParquet(dir + "/a.parquet", *table, {.row_group_rows = 2000, .page_bytes = page_bytes});
    for (const int64_t read_memory : {int64_t{0}, int64_t{256 << 10}}) {
      const auto source = *SampleSource::Open({dir + "/a.parquet"}, {.read_memory = read_memory});
      const std::vector<std::vector<std::string>> together = ReadTexts(*source, kColumns);
      for (size_t c = 0; c < kColumns.size(); ++c) {
        EXPECT_EQ(together[c], ReadTexts(*source, kColumns[c])) << kColumns[c];
      }
    }
  }
}

}  // namespace
}  // namespace starling
