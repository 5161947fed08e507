// Reading under a predicate: the rows that match, in every format, and no more
// of the files than they stand in.
#include <arrow/io/file.h>
#include <arrow/ipc/writer.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sample_io/parquet_test_util.h"
#include "sample_io/requests.h"
#include "sample_io/source.h"

namespace starling {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Json(const std::vector<std::string>& values) {
  return absl::StrCat("[", absl::StrJoin(values, ","), "]");
}

// 100 rows: x = begin …, s = "US" in every fourth, t a minute a row, f = x / 2 with a null each 10.
std::shared_ptr<arrow::Table> Rows(int begin) {
  std::vector<std::string> x, s, t, f;
  for (int i = begin; i < begin + 100; ++i) {
    x.push_back(absl::StrCat(i));
    s.push_back(i % 4 == 0 ? "\"US\"" : "\"DE\"");
    t.push_back(absl::StrCat(int64_t{60'000'000} * i));
    f.push_back(i % 10 == 0 ? "null" : absl::StrCat(0.5 * i));
  }
  return MakeTable({{"x", arrow::int64(), Json(x)},
                    {"s", arrow::utf8(), Json(s)},
                    {"t", arrow::timestamp(arrow::TimeUnit::MICRO), Json(t)},
                    {"f", arrow::float64(), Json(f)}});
}

std::vector<int64_t> Xs(const SampleSource& source) {
  std::vector<int64_t> xs;
  for (size_t s = 0; s < source.splits().size(); ++s) {
    auto batch = source.Read(static_cast<int>(s), {"x"});
    EXPECT_TRUE(batch.ok()) << batch.status();
    xs.insert(xs.end(), batch->columns[0].ints.begin(), batch->columns[0].ints.end());
  }
  return xs;
}

class SourceWhereTest : public testing::Test {
 protected:
  // Ten row groups of 20 rows in files of two days.
  void SetUp() override {
    dir_ = FreshDir();
    TestFileOptions options;
    options.row_group_rows = 20;
    WriteParquet(dir_ + "/ds=20260801/a.parquet", *Rows(0), options);
    WriteParquet(dir_ + "/ds=20260802/a.parquet", *Rows(100), options);
  }
  std::unique_ptr<SampleSource> Open(const std::string& where) {
    auto source = SampleSource::Open({dir_}, {where});
    EXPECT_TRUE(source.ok()) << source.status();
    return *std::move(source);
  }
  std::string dir_;
};

TEST_F(SourceWhereTest, FilesAreRuledOutByTheirPathWithoutBeingOpened) {
  WriteText(dir_ + "/ds=20260803/a.parquet", "not Parquet at all");
  auto source = Open("ds < 20260803 and x >= 95 and x < 103");
  EXPECT_THAT(Xs(*source), ElementsAre(95, 96, 97, 98, 99, 100, 101, 102));
  EXPECT_EQ(source->counts().files_passed_over, 1);
  EXPECT_EQ(source->counts().splits_passed_over, 8);
  EXPECT_EQ(source->splits().size(), 2u);
  EXPECT_EQ(source->counts().rows_read, 40);
  EXPECT_EQ(source->counts().rows_matched, 8);
}

TEST_F(SourceWhereTest, RowGroupsAreRuledOutByStatisticsOfEveryType) {
  struct Case {
    const char* where;
    size_t splits, rows;
  };
  for (const Case& c :
       {Case{"x = 33", 1, 1}, Case{"t < '1970-01-01T00:20:00'", 1, 20}, Case{"f > 98.9", 1, 2},
        Case{"s = 'ZZ'", 0, 0}, Case{"s >= 'US'", 10, 50}, Case{"x is null", 0, 0},
        Case{"f is null and x < 20", 1, 2}, Case{"not (x >= 20)", 1, 20},
        Case{"x in (1, 199)", 2, 2}, Case{"ds = 20260801 or x > 190", 6, 109}}) {
    auto source = SampleSource::Open({dir_}, {c.where});
    if (c.splits == 0) {
      EXPECT_EQ(source.status().code(), absl::StatusCode::kFailedPrecondition) << c.where;
      EXPECT_THAT(source.status().message(), HasSubstr("`where` leaves no row"));
      continue;
    }
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_EQ((*source)->splits().size(), c.splits) << c.where;
    EXPECT_EQ(Xs(**source).size(), c.rows) << c.where;
  }
}

TEST_F(SourceWhereTest, APartWithoutAMatchIsNotReadFurther) {
  auto source = Open("s = 'DE' and x = 40");  // Possible by the statistics, but 40 is US.
  auto batch = source->Read(0, {"f", "x"});
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(batch->rows, 0);
  EXPECT_EQ(batch->columns[0].rows, 0);
  EXPECT_EQ(source->counts().splits_without_match, 1);
}

TEST_F(SourceWhereTest, MatchingRowsKnowTheirPlaceInTheFile) {
  auto source = Open("s = 'US' and x >= 20 and x < 40");
  auto batch = *source->Read(0, {"s", "f", "ds"});
  EXPECT_THAT(batch.part_rows, ElementsAre(0, 4, 8, 12, 16));
  EXPECT_THAT(batch.columns[1].doubles, ElementsAre(testing::_, 12, 14, 16, 18));
  EXPECT_TRUE(batch.columns[1].IsNull(0));
  EXPECT_EQ(batch.columns[2].ints, std::vector<int64_t>(5, 20260801));
}

TEST_F(SourceWhereTest, FingerprintFollowsThePredicate) {
  EXPECT_NE(Open("x >= 0")->fingerprint(), Open("")->fingerprint());
  EXPECT_NE(Open("x >= 0")->fingerprint(), Open("x >= -1")->fingerprint());
}

TEST_F(SourceWhereTest, MistakesNameThePredicate) {
  auto message = [&](const char* where) {
    auto source = SampleSource::Open({dir_}, {where});
    EXPECT_EQ(source.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(source.status().message());
  };
  EXPECT_THAT(message("x = "), HasSubstr("where: character 5"));
  EXPECT_THAT(message("z = 1"), HasSubstr("the data has no column z"));
}

TEST(SourceWhereFormatsTest, EveryFormatGivesTheSameRows) {
  const std::string dir = FreshDir();
  WriteParquet(dir + "/p/a.parquet", *Rows(0));
  auto table = Rows(0);
  WriteText(dir + "/i/none", "");
  auto out = *arrow::io::FileOutputStream::Open(dir + "/i/a.arrow");
  auto writer = *arrow::ipc::MakeFileWriter(out, table->schema());
  ASSERT_TRUE(writer->WriteTable(*table, 30).ok() && writer->Close().ok());
  std::string csv = "x,s,t,f\n";
  for (int i = 0; i < 100; ++i) {
    absl::StrAppend(&csv, i, ",", i % 4 == 0 ? "US" : "DE", ",1970-01-01 0", i / 60, ":",
                    i % 60 < 10 ? "0" : "", i % 60, ":00,",
                    i % 10 == 0 ? "" : absl::StrCat(0.5 * i), "\n");
  }
  WriteText(dir + "/c/a.csv", csv);
  const std::string where = "s = 'US' and f >= 10 and t < '1970-01-01T01:00:00'";
  for (const char* format : {"/p/", "/i/", "/c/"}) {
    auto source = SampleSource::Open({dir + format}, {where});
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_THAT(Xs(**source), ElementsAre(24, 28, 32, 36, 44, 48, 52, 56)) << format;
  }
}

// Of nested data whole requests are taken, by the user's columns.
TEST(SourceWhereFormatsTest, NestedRowsAreTakenWhole) {
  const std::string dir = FreshDir();
  auto impressions = arrow::list(arrow::struct_({arrow::field("item", arrow::int64())}));
  auto user = arrow::struct_({arrow::field("age", arrow::int64())});
  WriteParquet(dir + "/a.parquet",
               *MakeTable({{"user", user, R"([{"age": 1}, {"age": 2}, {"age": 2}])"},
                           {"imp", impressions,
                            R"([[{"item": 1}], [{"item": 2}, {"item": 3}], [{"item": 4}]])"}}));
  auto source = SampleSource::Open({dir}, {"user.age = 2"});
  ASSERT_TRUE(source.ok()) << source.status();
  auto batch = *(*source)->Read(0, {"imp.item", "user.age"});
  EXPECT_EQ(batch.rows, 2);
  ASSERT_TRUE(FormRequests({}, &batch).ok());
  EXPECT_EQ(batch.requests, 2);
  EXPECT_THAT(batch.columns[0].ints, ElementsAre(2, 3, 4));
  EXPECT_THAT(batch.request_of_row, ElementsAre(0, 0, 1));
  EXPECT_THAT(SampleSource::Open({dir}, {"imp.item = 2"}).status().message(),
              HasSubstr("several values a row"));
}

}  // namespace
}  // namespace starling
