#include "serving/score_writer.h"

#include <gmock/gmock.h>

#include <limits>

#include "sample_io/source.h"
#include "serving/test_bundle.h"

namespace starling {
namespace {

using ::testing::ElementsAre;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Three rows; the second is null in every column.
ColumnBatch Columns() {
  ColumnBatch batch;
  batch.rows = 3;
  Column user{.name = "user", .type = ColumnType::kInt64, .rows = 3};
  user.valid = {1, 0, 1};
  user.ints = {-7, 0, 1234567890123};
  Column item{.name = "item", .type = ColumnType::kString, .rows = 3};
  item.valid = {1, 0, 1};
  item.strings = {"a,\"b\"", "", ""};
  Column tags{.name = "tags", .type = ColumnType::kString, .is_list = true, .rows = 3};
  tags.valid = {1, 0, 1};
  tags.list_offsets = {0, 2, 2, 2};
  tags.strings = {"x", "y"};
  Column price{.name = "price", .type = ColumnType::kDouble, .rows = 3};
  price.valid = {1, 0, 1};
  price.doubles = {0.5, 0, 1e-7};
  batch.columns = {user, item, tags, price};
  return batch;
}
const std::vector<std::string> kKeep = {"user", "item", "tags", "price"};
const std::vector<float> kScores = {0.1f, kNaN, 0.333333343f};

TEST(ScoreWriterTest, CsvHoldsRowsKeptColumnsAndNineDigits) {
  std::string dir = TestDir("csv");
  ASSERT_TRUE(MakeDirs(dir).ok());
  auto writer = ScoreWriter::Create(dir + "/out.csv", kKeep, {"probability"});
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Append(Columns(), kScores).ok());
  ASSERT_TRUE((*writer)->Append(Columns(), kScores).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_EQ(*ReadFile(dir + "/out.csv"),
            "row,user,item,tags,price,probability\n"
            "0,-7,\"a,\"\"b\"\"\",x|y,0.5,0.100000001\n"
            "1,,,,,\n"
            "2,1234567890123,\"\",\"\",1e-07,0.333333343\n"
            "3,-7,\"a,\"\"b\"\"\",x|y,0.5,0.100000001\n"
            "4,,,,,\n"
            "5,1234567890123,\"\",\"\",1e-07,0.333333343\n");
}

TEST(ScoreWriterTest, SeveralOutputsAreAColumnEach) {
  std::string dir = TestDir("outputs");
  ASSERT_TRUE(MakeDirs(dir).ok());
  for (const char* name : {"/out.csv", "/out.parquet"}) {
    auto writer = ScoreWriter::Create(dir + name, {"user"}, {"ctr", "c,vr"});
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE((*writer)->Append(Columns(), std::vector<float>{.5, .25, kNaN, kNaN, 1, 0}).ok());
    ASSERT_TRUE((*writer)->Finish().ok());
  }
  EXPECT_EQ(*ReadFile(dir + "/out.csv"),
            "row,user,ctr,\"c,vr\"\n0,-7,0.5,0.25\n1,,,\n2,1234567890123,1,0\n");
  auto source = SampleSource::Open({dir + "/out.parquet"});
  ASSERT_TRUE(source.ok()) << source.status();
  auto got = (*source)->Read(0, {"ctr", "c,vr"});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_TRUE(got->Find("ctr")->IsNull(1));
  EXPECT_EQ(got->Find("ctr")->doubles[2], 1);
  EXPECT_EQ(got->Find("c,vr")->doubles[0], .25);
}

TEST(ScoreWriterTest, ParquetGivesBackTheSameColumns) {
  std::string dir = TestDir("parquet");
  ASSERT_TRUE(MakeDirs(dir).ok());
  auto writer = ScoreWriter::Create(dir + "/out.parquet", kKeep, {"probability"});
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Append(Columns(), kScores).ok());
  ASSERT_TRUE((*writer)->Append(Columns(), kScores).ok());
  absl::Status finished = (*writer)->Finish();
  ASSERT_TRUE(finished.ok()) << finished;
  auto source = SampleSource::Open({dir + "/out.parquet"});
  ASSERT_TRUE(source.ok()) << source.status();
  std::vector<std::string> schema;
  for (const ColumnSchema& c : (*source)->schema()) schema.push_back(c.name + " " + c.type);
  EXPECT_EQ(schema.front(), "row int64");
  EXPECT_EQ(schema.back(), "probability float");
  auto got = (*source)->Read(0, {"row", "user", "item", "tags", "price", "probability"});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT(got->Find("row")->ints[2], 2);
  ColumnBatch want = Columns();
  for (const char* name : {"user", "item", "tags", "price", "probability"}) {
    EXPECT_FALSE(got->Find(name)->IsNull(0)) << name;
    EXPECT_TRUE(got->Find(name)->IsNull(1)) << name;
    EXPECT_FALSE(got->Find(name)->IsNull(2)) << name;
  }
  EXPECT_EQ(got->Find("user")->ints[2], 1234567890123);
  EXPECT_EQ(got->Find("item")->strings[0], "a,\"b\"");
  EXPECT_EQ(got->Find("tags")->list_offsets[1], 2);
  EXPECT_THAT(std::vector<absl::string_view>(got->Find("tags")->strings.begin(),
                                             got->Find("tags")->strings.begin() + 2),
              ElementsAre("x", "y"));
  EXPECT_EQ(got->Find("price")->doubles[2], 1e-7);
  EXPECT_EQ(got->Find("probability")->doubles[2], static_cast<double>(0.333333343f));
}

TEST(ScoreWriterTest, WithoutFinishNothingIsThere) {
  std::string dir = TestDir("unfinished");
  ASSERT_TRUE(MakeDirs(dir).ok());
  for (const char* name : {"/out.csv", "/out.parquet"}) {
    auto writer = ScoreWriter::Create(dir + name, kKeep, {"probability"});
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE((*writer)->Append(Columns(), kScores).ok());
    EXPECT_FALSE(PathExists(dir + name));
  }
  EXPECT_TRUE(ListDir(dir)->empty());
}

TEST(ScoreWriterTest, AFullDiskIsReportedAndLeavesNothing) {
  std::string dir = TestDir("full");
  ASSERT_TRUE(MakeDirs(dir).ok());
  for (const char* name : {"/out.csv", "/out.parquet"}) {
    for (const char* failing : {"append", "sync", "rename"}) {
      SetFileFault([&](absl::string_view op, absl::string_view) {
        return op == failing ? absl::ResourceExhaustedError("disk full") : absl::OkStatus();
      });
      auto writer = ScoreWriter::Create(dir + name, kKeep, {"probability"});
      absl::Status status = writer.status();
      if (status.ok()) status = (*writer)->Append(Columns(), kScores);
      if (status.ok()) status = (*writer)->Finish();
      SetFileFault(nullptr);
      EXPECT_TRUE(absl::IsResourceExhausted(status)) << name << " " << failing << status;
      if (writer.ok()) writer->reset();
      EXPECT_TRUE(ListDir(dir)->empty()) << name << " " << failing;
    }
  }
}

TEST(ScoreWriterTest, AnotherEndingIsRefused) {
  EXPECT_TRUE(
      absl::IsInvalidArgument(ScoreWriter::Create("out.txt", {}, {"probability"}).status()));
  EXPECT_FALSE(ScoreWriter::Create("/no/such/dir/out.csv", {}, {"probability"}).ok());
}

}  // namespace
}  // namespace starling
