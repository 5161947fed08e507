#include "sample_io/source.h"

#include <arrow/table.h>
#include <arrow/type.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "sample_io/parquet_test_util.h"

namespace starling {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::shared_ptr<arrow::Table> IntTable(const std::string& json, const std::string& name = "a") {
  return MakeTable({{name, arrow::int64(), json}});
}

void ExpectError(const std::vector<std::string>& patterns, const std::vector<std::string>& words) {
  auto source = SampleSource::Open(patterns);
  ASSERT_EQ(source.status().code(), absl::StatusCode::kFailedPrecondition) << source.status();
  for (const std::string& word : words) EXPECT_THAT(source.status().message(), HasSubstr(word));
}

std::vector<std::string> Files(const SampleSource& source) {
  std::vector<std::string> files;
  for (const Split& split : source.splits()) files.push_back(split.file);
  return files;
}

TEST(SourceTest, DirectoryIsSearchedSortedAndHiddenNamesAreSkipped) {
  const std::string dir = FreshDir();
  for (const char* name : {"b.parquet", "a.parquet", "sub/c.parquet", "_tmp/d.parquet",
                           ".hidden.parquet", "_e.parquet", ".git/f.parquet"}) {
    WriteParquet(absl::StrCat(dir, "/", name), *IntTable("[1]"));
  }
  WriteText(dir + "/_SUCCESS", "");
  WriteText(dir + "/notes.txt", "hello");
  auto source = SampleSource::Open({dir + "/"});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT(Files(**source),
              ElementsAre(dir + "/a.parquet", dir + "/b.parquet", dir + "/sub/c.parquet"));
}

TEST(SourceTest, GlobsMatchFilesAndDirectoriesAndEachFileCountsOnce) {
  const std::string dir = FreshDir();
  for (const char* name :
       {"ds=1/a.parquet", "ds=2/a.parquet", "ds=2/b.parquet", "_ds=3/a.parquet"}) {
    WriteParquet(absl::StrCat(dir, "/", name), *IntTable("[1]"));
  }
  WriteText(dir + "/ds=1/_SUCCESS", "");
  EXPECT_EQ((*SampleSource::Open({dir + "/ds=*/"}))->rows(), 3);
  EXPECT_EQ((*SampleSource::Open({dir + "/*"}))->rows(), 3);
  EXPECT_EQ((*SampleSource::Open({dir + "/ds=1/*"}))->rows(), 1);
  EXPECT_EQ((*SampleSource::Open({dir + "/ds=2/*.parquet"}))->rows(), 2);
  EXPECT_EQ((*SampleSource::Open({dir + "/ds=[2]/", dir + "//ds=2/b.parquet", dir}))->rows(), 3);
}

TEST(SourceTest, SplitIsARowGroupInTheOrderOfFiles) {
  const std::string dir = FreshDir();
  TestFileOptions options;
  options.row_group_rows = 2;
  WriteParquet(dir + "/b.parquet", *IntTable("[1, 2, 3]"), options);
  WriteParquet(dir + "/a.parquet", *IntTable("[4]"), options);
  auto source = *SampleSource::Open({dir});
  ASSERT_EQ(source->splits().size(), 3u);
  EXPECT_EQ(source->splits()[2].row_group, 1);
  EXPECT_EQ(source->splits()[2].rows, 1);
  EXPECT_EQ(source->rows(), 4);
  EXPECT_THAT(source->Read(0, {"a"})->columns[0].ints, ElementsAre(4));
  EXPECT_THAT(source->Read(1, {"a"})->columns[0].ints, ElementsAre(1, 2));
  EXPECT_THAT(source->Read(2, {"a"})->columns[0].ints, ElementsAre(3));
}

TEST(SourceTest, FingerprintFollowsNamesAndRowsNotDirectories) {
  const std::string dir = FreshDir();
  WriteParquet(dir + "/x/a.parquet", *IntTable("[1, 2]"));
  WriteParquet(dir + "/y/a.parquet", *IntTable("[3, 4]"));
  WriteParquet(dir + "/z/a.parquet", *IntTable("[1, 2, 3]"));
  WriteParquet(dir + "/w/b.parquet", *IntTable("[1, 2]"));
  auto print = [&](const char* d) { return (*SampleSource::Open({dir + d}))->fingerprint(); };
  EXPECT_EQ(print("/x"), print("/y"));
  EXPECT_NE(print("/x"), print("/z"));
  EXPECT_NE(print("/x"), print("/w"));
}

TEST(SourceTest, HiveKeysBecomeColumnsAfterTheFilesOwn) {
  const std::string dir = FreshDir();
  WriteParquet(dir + "/ds=20260801/city=S%C3%A3o/a.parquet", *IntTable("[1, 2]"));
  WriteParquet(dir + "/ds=20260802/city=7/a.parquet", *IntTable("[3]"));
  WriteParquet(dir + "/ds=20260803/city=__HIVE_DEFAULT_PARTITION__/a.parquet", *IntTable("[4]"));
  auto source = *SampleSource::Open({dir});
  ASSERT_EQ(source->schema().size(), 3u);
  EXPECT_EQ(source->schema()[0].name, "a");
  EXPECT_EQ(source->schema()[1].name, "city");
  EXPECT_EQ(source->schema()[1].type, "string");
  EXPECT_EQ(source->schema()[2].name, "ds");
  EXPECT_EQ(source->schema()[2].type, "int64");
  auto rows = *source->Read(0, {"ds", "a", "city"});
  EXPECT_THAT(rows.columns[0].ints, ElementsAre(20260801, 20260801));
  EXPECT_THAT(rows.columns[1].ints, ElementsAre(1, 2));
  EXPECT_THAT(rows.columns[2].strings, ElementsAre("São", "São"));
  EXPECT_EQ(source->Read(1, {"city"})->columns[0].strings[0], "7");
  EXPECT_TRUE(source->Read(2, {"city"})->columns[0].IsNull(0));
}

TEST(SourceTest, FileOutsideThePartitionsFails) {
  const std::string dir = FreshDir();
  WriteParquet(dir + "/ds=1/a.parquet", *IntTable("[1]"));
  WriteParquet(dir + "/stray.parquet", *IntTable("[1]"));
  ExpectError({dir}, {"stray.parquet", "ds=", "partitioned alike"});
}

TEST(SourceTest, NothingToReadFailsWithAdvice) {
  const std::string dir = FreshDir();
  ExpectError({dir}, {dir, "no *.parquet file", "check the path"});
  ExpectError({dir + "/none.parquet"}, {"none.parquet", "no such file", "check the path"});
  ExpectError({dir + "/ds=*/"}, {"ds=*", "check the path"});
  ExpectError({}, {"name at least one"});
  WriteParquet(dir + "/a.parquet", *IntTable("[1]"));
  ExpectError({dir, dir + "/other/"}, {"other"});
}

TEST(SourceTest, ZeroRowsInAllFailsButAZeroRowFileAmongOthersDoesNot) {
  const std::string dir = FreshDir();
  WriteParquet(dir + "/a.parquet", *IntTable("[]"));
  WriteParquet(dir + "/b.parquet", *IntTable("[]"));
  ExpectError({dir}, {"no rows", dir, "a.parquet", "check what writes them"});
  WriteParquet(dir + "/b.parquet", *IntTable("[5]"));
  auto source = SampleSource::Open({dir});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->rows(), 1);
  EXPECT_THAT((*source)->Read(0, {"a"})->columns[0].ints, ElementsAre(5));
}

TEST(SourceTest, FileThatIsNotWholeParquetFailsWithAdvice) {
  const std::string dir = FreshDir();
  WriteParquet(dir + "/a.parquet", *IntTable("[1, 2, 3]"));
  const std::string whole = ReadText(dir + "/a.parquet");
  WriteText(dir + "/b.parquet", whole.substr(0, whole.size() / 2));
  ExpectError({dir}, {"b.parquet", "cut short or damaged", "write the file again"});
  WriteText(dir + "/b.parquet", "user,item,click\n1,2,0\n");
  ExpectError({dir}, {"b.parquet", "not a Parquet file", "user,item", "write the file again"});
  WriteText(dir + "/b.parquet", "");
  ExpectError({dir}, {"b.parquet", "empty", "write the file again"});
}

TEST(SourceTest, UnreadableFileFails) {
  const std::string dir = FreshDir();
  std::filesystem::create_symlink(dir + "/gone", dir + "/a.parquet");
  ExpectError({dir + "/a.parquet"}, {"a.parquet"});
}

TEST(SourceTest, AnotherTypeFailsNamingFileColumnAndTypes) {
  const std::string dir = FreshDir();
  WriteParquet(dir + "/a.parquet",
               *MakeTable({{"x", arrow::int64(), "[1]"}, {"y", arrow::utf8(), "[\"s\"]"}}));
  auto expect = [&](const std::shared_ptr<arrow::DataType>& type, const std::string& json,
                    const std::string& name) {
    WriteParquet(dir + "/b.parquet",
                 *MakeTable({{"y", arrow::utf8(), "[\"s\"]"}, {"x", type, json}}));
    ExpectError({dir}, {"b.parquet", "column x is " + name, "int64 in", "a.parquet", "one schema"});
  };
  expect(arrow::utf8(), "[\"1\"]", "string");
  expect(arrow::list(arrow::int64()), "[[1]]", "list<");
  expect(arrow::float64(), "[1.5]", "double");
  expect(arrow::uint64(), "[1]", "uint64");
  expect(arrow::timestamp(arrow::TimeUnit::MICRO), "[1]", "timestamp");
}

// A column that some files lack: the others can be read, it cannot, and both are said.
TEST(SourceTest, AddedDroppedAndRenamedColumnsAreNotedAndCannotBeRead) {
  const std::string dir = FreshDir();
  WriteParquet(dir + "/a.parquet",
               *MakeTable({{"x", arrow::int64(), "[1]"}, {"y", arrow::utf8(), "[\"s\"]"}}));
  struct Case {
    const char* what;
    std::shared_ptr<arrow::Table> table;
    std::vector<std::string> notes;  // Columns.
  };
  const Case cases[] = {
      {"dropped", IntTable("[2]", "x"), {"y"}},
      {"added",
       MakeTable({{"x", arrow::int64(), "[2]"},
                  {"y", arrow::utf8(), "[\"s\"]"},
                  {"z", arrow::int64(), "[1]"}}),
       {"z"}},
      {"renamed",
       MakeTable({{"x", arrow::int64(), "[2]"}, {"y2", arrow::utf8(), "[\"s\"]"}}),
       {"y", "y2"}}};
  for (const Case& c : cases) {
    WriteParquet(dir + "/b.parquet", *c.table);
    auto source = SampleSource::Open({dir});
    ASSERT_TRUE(source.ok()) << c.what << source.status();
    EXPECT_THAT((*source)->Read(1, {"x"})->columns[0].ints, ElementsAre(2)) << c.what;
    ASSERT_EQ((*source)->notes().size(), c.notes.size()) << c.what;
    for (size_t i = 0; i < c.notes.size(); ++i) {
      const SchemaNote& note = (*source)->notes()[i];
      EXPECT_EQ(note.column, c.notes[i]);
      EXPECT_THAT(note.text, HasSubstr("column " + c.notes[i] + " ("));
      EXPECT_THAT(note.text, HasSubstr("missing in " + dir));
      for (const ColumnSchema& column : (*source)->schema()) EXPECT_NE(column.name, note.column);
      EXPECT_THAT((*source)->Read(0, {note.column}).status().message(), HasSubstr("missing in"));
    }
  }
}

TEST(SourceTest, WiderNumbersAndOtherUnitsOfTimeReadAlikeWithANote) {
  const std::string dir = FreshDir();
  auto table = [](auto number, auto real, auto time, const char* times) {
    return MakeTable({{"i", number, "[7]"},
                      {"f", real, "[0.5]"},
                      {"t", time, times},
                      {"l", arrow::list(number), "[[7, 8]]"}});
  };
  WriteParquet(dir + "/a.parquet", *table(arrow::int32(), arrow::float32(),
                                          arrow::timestamp(arrow::TimeUnit::MILLI), "[5000]"));
  WriteParquet(dir + "/b.parquet", *table(arrow::int64(), arrow::float64(),
                                          arrow::timestamp(arrow::TimeUnit::MICRO), "[5000000]"));
  auto source = SampleSource::Open({dir});
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_EQ((*source)->notes().size(), 4u);
  EXPECT_THAT((*source)->notes()[0].text, HasSubstr("column i is int64 in"));
  EXPECT_THAT((*source)->notes()[0].text, HasSubstr("but int32 in"));
  for (int split : {0, 1}) {
    auto rows = *(*source)->Read(split, {"i", "f", "t", "l"});
    EXPECT_THAT(rows.columns[0].ints, ElementsAre(7));
    EXPECT_THAT(rows.columns[1].doubles, ElementsAre(0.5));
    EXPECT_THAT(rows.columns[2].ints, ElementsAre(5));
    EXPECT_THAT(rows.columns[3].ints, ElementsAre(7, 8));
  }
}

TEST(SourceTest, OrderOfColumnsAndStorageOfStringsMayDiffer) {
  const std::string dir = FreshDir();
  WriteParquet(dir + "/a.parquet",
               *MakeTable({{"x", arrow::int64(), "[1]"}, {"y", arrow::utf8(), "[\"s\"]"}}));
  WriteParquet(dir + "/b.parquet",
               *MakeTable({{"y", arrow::dictionary(arrow::int32(), arrow::utf8()), "[\"t\"]"},
                           {"x", arrow::int64(), "[2]"}}));
  WriteParquet(dir + "/c.parquet",
               *MakeTable({{"x", arrow::int64(), "[3]"}, {"y", arrow::large_utf8(), "[\"u\"]"}}));
  auto source = SampleSource::Open({dir});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_TRUE((*source)->notes().empty());
  EXPECT_THAT((*source)->Read(1, {"x", "y"})->columns[1].strings, ElementsAre("t"));
  EXPECT_THAT((*source)->Read(2, {"y", "x"})->columns[0].strings, ElementsAre("u"));
}

// A writer that met only nulls does not know the column's type.
TEST(SourceTest, AllNullColumnFitsAnyType) {
  const std::string dir = FreshDir();
  WriteParquet(dir + "/a.parquet", *MakeTable({{"x", arrow::null(), "[null, null]"}}));
  WriteParquet(dir + "/b.parquet", *MakeTable({{"x", arrow::utf8(), "[\"s\"]"}}));
  auto source = SampleSource::Open({dir});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->schema()[0].type, "string");
  auto rows = (*source)->Read(0, {"x"});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_TRUE(rows->columns[0].IsNull(0) && rows->columns[0].IsNull(1));
  WriteParquet(dir + "/c.parquet", *MakeTable({{"x", arrow::int64(), "[1]"}}));
  ExpectError({dir}, {"c.parquet", "int64", "string in", "b.parquet"});
}

TEST(SourceTest, UnknownColumnAndUnsupportedTypeAreNamed) {
  const std::string dir = FreshDir();
  WriteParquet(
      dir + "/a.parquet",
      *MakeTable({{"s", arrow::struct_({arrow::field("f", arrow::int64())}), "[{\"f\": 1}]"},
                  {"ll", arrow::list(arrow::list(arrow::int64())), "[[[1]]]"},
                  {"x", arrow::int64(), "[1]"}}));
  auto source = *SampleSource::Open({dir});
  auto expect = [&](const char* column, const std::vector<std::string>& words) {
    absl::Status status = source->Read(0, {"x", column}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    for (const std::string& word : words) EXPECT_THAT(status.message(), HasSubstr(word));
  };
  expect("ll", {"a.parquet: row group 0: column ll", "list<", "not supported", "use integers"});
  expect("nope", {"a.parquet", "no column nope", "the data has s.f, ll, x"});
  EXPECT_EQ(source->Read(0, {"s.f"})->columns[0].ints, std::vector<int64_t>{1});
  EXPECT_TRUE(source->Read(0, {"x"}).ok());
}

TEST(SourceTest, FileChangedDuringTheRunFails) {
  const std::string dir = FreshDir();
  WriteParquet(dir + "/a.parquet", *IntTable("[1]"));
  auto source = *SampleSource::Open({dir});
  WriteParquet(dir + "/a.parquet", *IntTable("[1, 2, 3, 4, 5, 6, 7, 8, 9, 100000]"));
  EXPECT_THAT(source->Read(0, {"a"}).status().message(), HasSubstr("changed"));
  std::filesystem::remove(dir + "/a.parquet");
  EXPECT_THAT(source->Read(0, {"a"}).status().message(), HasSubstr("a.parquet"));
}

}  // namespace
}  // namespace starling
