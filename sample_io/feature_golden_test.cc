// Ids equal Spark's, from the type in the file to the id in the batch, so that
// logs can be hashed before they are read. testdata/feature_golden.tsv was written by
// Spark itself, by the script beside it.
#include <arrow/table.h>
#include <arrow/type.h>
#include <gtest/gtest.h>

#include <fstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "sample_io/feature_test_util.h"
#include "sample_io/parquet_test_util.h"
#include "sample_io/source.h"

namespace starling {
namespace {

struct Golden {
  int64_t integer = 0;
  std::string text;
  uint64_t id = 0;
};

std::vector<Golden> GoldenOf(const std::string& name) {
  std::vector<Golden> rows;
  std::ifstream in(SAMPLE_IO_TESTDATA "/feature_golden.tsv");
  for (std::string line; std::getline(in, line);) {
    const std::vector<std::string> part = absl::StrSplit(line, '\t');
    if (part[0] != name) continue;
    Golden& row = rows.emplace_back();
    EXPECT_TRUE(absl::SimpleAtoi(part[1], &row.integer) && absl::SimpleAtoi(part[3], &row.id));
    row.text = part[2];
  }
  EXPECT_EQ(rows.size(), 7u) << name;
  return rows;
}

// The id of a row whose column `i` is of this type.
uint64_t IdOf(const Golden& row, const std::shared_ptr<arrow::DataType>& type,
              const FeatureSet& set) {
  const std::string path = FreshDir() + "/a.parquet";
  const int64_t i = type->id() == arrow::Type::INT16 ? static_cast<int16_t>(row.integer)
                                                     : row.integer;  // As Spark's cast.
  WriteParquet(path, *MakeTable({{"i", type, absl::StrCat("[", i, "]")},
                                 {"s", arrow::utf8(), absl::StrCat("[\"", row.text, "\"]")}}));
  auto batch = *(*SampleSource::Open({path}))->Read(0, ColumnsOf(set, false));
  return IdsAt(Compile(set, batch.columns), 0)[0];
}

TEST(FeatureGoldenTest, IdsAreThoseOfSpark) {
  struct Case {
    const char* name;
    std::shared_ptr<arrow::DataType> type;
    const char* feature;
  };
  for (const Case& c : {
           Case{"id of int32", arrow::int32(), "name: 'i'"},
           Case{"id of int16", arrow::int16(), "name: 'i'"},
           Case{"id of text", arrow::int64(), "name: 's'"},
           Case{"shared vocabulary", arrow::int64(), "name: 's' vocabulary: 'words'"},
           Case{"salted", arrow::int64(), "name: 's' salt: 'v2'"},
           Case{"combo", arrow::int32(),
                "name: 'i_x_s' steps { columns: ['i', 's'] combo { max_length: 4 } }"},
       }) {
    const FeatureSet set = Features(absl::StrCat("tables: 1 ids { table: 0 ", c.feature, " }"));
    for (const Golden& row : GoldenOf(c.name)) {
      EXPECT_EQ(IdOf(row, c.type, set), row.id)
          << c.name << ", " << row.integer << ", " << row.text;
    }
  }
}

// The rule for narrow integers: Spark hashes them as four bytes unless they are
// cast to bigint; we hash integers of every width as eight, so that a column may be widened.
TEST(FeatureGoldenTest, NarrowIntegersHashAsBigint) {
  const FeatureSet set = Features("tables: 1 ids { table: 0 name: 'i' }");
  for (const Golden& row : GoldenOf("int32 without a cast")) {
    EXPECT_EQ(IdOf(row, arrow::int32(), set), IdOf(row, arrow::int64(), set));
    EXPECT_NE(IdOf(row, arrow::int32(), set), row.id);
  }
}

}  // namespace
}  // namespace starling
