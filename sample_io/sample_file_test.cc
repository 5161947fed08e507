// Formats other than Parquet: the same rows whatever file they come from, and
// a stated error for each way a file can be wrong.
#include "sample_io/sample_file.h"

#include <arrow/io/compressed.h>
#include <arrow/io/file.h>
#include <arrow/ipc/writer.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <arrow/util/compression.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/random.h"
#include "sample_io/csv_scanner.h"
#include "sample_io/parquet_test_util.h"
#include "sample_io/source.h"

namespace starling {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

void WriteIpc(const std::string& path, const arrow::Table& table, int64_t batch_rows,
              const std::string& compression = "uncompressed") {
  auto out = arrow::io::FileOutputStream::Open(path).ValueOrDie();
  auto options = arrow::ipc::IpcWriteOptions::Defaults();
  if (compression != "uncompressed") {
    options.codec =
        arrow::util::Codec::Create(arrow::util::Codec::GetCompressionType(compression).ValueOrDie())
            .ValueOrDie();
  }
  auto writer = absl::EndsWith(path, ".arrows")
                    ? arrow::ipc::MakeStreamWriter(out, table.schema(), options).ValueOrDie()
                    : arrow::ipc::MakeFileWriter(out, table.schema(), options).ValueOrDie();
  ASSERT_TRUE(writer->WriteTable(table, batch_rows).ok());
  ASSERT_TRUE(writer->Close().ok());
  ASSERT_TRUE(out->Close().ok());
}

void WriteGzip(const std::string& path, const std::string& text) {
  auto codec = arrow::util::Codec::Create(arrow::Compression::GZIP).ValueOrDie();
  auto out = arrow::io::CompressedOutputStream::Make(
                 codec.get(), arrow::io::FileOutputStream::Open(path).ValueOrDie())
                 .ValueOrDie();
  ASSERT_TRUE(out->Write(text.data(), static_cast<int64_t>(text.size())).ok());
  ASSERT_TRUE(out->Close().ok());
}

// All rows as text, or the first error.
absl::StatusOr<std::vector<std::string>> Rows(const std::string& path) {
  auto source = SampleSource::Open({path});
  if (!source.ok()) return source.status();
  std::vector<std::string> names, rows;
  for (const ColumnSchema& column : (*source)->schema()) names.push_back(column.name);
  for (size_t s = 0; s < (*source)->splits().size(); ++s) {
    auto columns = (*source)->Read(static_cast<int>(s), names);
    if (!columns.ok()) return columns.status();
    for (int64_t row = 0; row < columns->rows; ++row) {
      rows.emplace_back();
      for (const Column& column : columns->columns) {
        absl::StrAppend(&rows.back(), column.name, "=",
                        column.IsNull(row) ? "null" : ValueText(column, row), ";");
      }
    }
  }
  return rows;
}

void ExpectError(const std::string& path, const std::vector<std::string>& words) {
  absl::Status status = Rows(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  for (const std::string& word : words) EXPECT_THAT(status.message(), HasSubstr(word));
}

std::shared_ptr<arrow::Table> SomeTable(int rows) {
  std::vector<std::string> ints, floats, strings, lists;
  for (int i = 0; i < rows; ++i) {
    ints.push_back(i % 11 == 0 ? "null" : absl::StrCat(RandomBelow(1, i, 1000)));
    floats.push_back(absl::StrCat(RandomUniform(2, i)));
    strings.push_back(absl::StrCat("\"value ", RandomBelow(3, i, 50), "\""));
    lists.push_back(absl::StrCat("[", i, ", ", i % 3, "]"));
  }
  auto json = [](const auto& v) { return absl::StrCat("[", absl::StrJoin(v, ","), "]"); };
  return MakeTable({{"i", arrow::int64(), json(ints)},
                    {"f", arrow::float64(), json(floats)},
                    {"s", arrow::utf8(), json(strings)},
                    {"d", arrow::dictionary(arrow::int32(), arrow::utf8()), json(strings)},
                    {"l", arrow::list(arrow::int64()), json(lists)}});
}

class IpcFileTest : public testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  std::string Extension() const { return std::get<0>(GetParam()); }
  std::string Compression() const { return std::get<1>(GetParam()); }
};

TEST_P(IpcFileTest, GivesTheRowsThatParquetGives) {
  const std::string dir = FreshDir();
  auto table = SomeTable(500);
  WriteParquet(dir + "/a.parquet", *table);
  WriteIpc(dir + "/b." + Extension(), *table, 200, Compression());
  EXPECT_EQ(*Rows(dir + "/b." + Extension()), *Rows(dir + "/a.parquet"));
  auto source = *SampleSource::Open({dir + "/b." + Extension()});
  EXPECT_EQ(source->splits().size(), 3u);
  EXPECT_EQ(source->splits()[2].Place(), dir + "/b." + Extension() + ": record batch 2");
  // A later batch alone, without the columns that hold dictionaries too.
  auto alone = *source->Read(2, {"i"});
  EXPECT_EQ(alone.rows, 100);
}

TEST_P(IpcFileTest, CutShortAnywhereIsAnError) {
  const std::string path = FreshDir() + "/a." + Extension();
  WriteIpc(path, *SomeTable(500), 200, Compression());
  const std::string whole = ReadText(path);
  for (int i = 0; i < 40; ++i) {
    WriteText(path, whole.substr(0, RandomBelow(7, i, whole.size())));
    auto rows = Rows(path);
    ASSERT_FALSE(rows.ok()) << i;
    EXPECT_EQ(rows.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(rows.status().message(), HasSubstr("a." + Extension()));
  }
}

// IPC has no checksums: a flip may change a value. It must not crash.
TEST_P(IpcFileTest, FlippedBitNeverCrashes) {
  const std::string path = FreshDir() + "/a." + Extension();
  WriteIpc(path, *SomeTable(60), 20, Compression());
  const std::string whole = ReadText(path);
  int errors = 0;
  for (int i = 0; i < 100; ++i) {
    const uint64_t bit = RandomBelow(8, i, 8 * whole.size());
    std::string damaged = whole;
    damaged[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    WriteText(path, damaged);
    auto rows = Rows(path);
    if (rows.ok()) continue;
    EXPECT_EQ(rows.status().code(), absl::StatusCode::kFailedPrecondition) << rows.status();
    EXPECT_THAT(rows.status().message(), HasSubstr("a." + Extension()));
    ++errors;
  }
  EXPECT_GT(errors, 0);
}

INSTANTIATE_TEST_SUITE_P(Kinds, IpcFileTest,
                         testing::Combine(testing::Values("arrow", "feather", "arrows"),
                                          testing::Values("uncompressed", "zstd")),
                         [](const auto& info) {
                           return absl::StrCat(std::get<0>(info.param), "_",
                                               std::get<1>(info.param));
                         });

TEST(SampleFileTest, StreamWithoutDictionariesIsReadAtTheBatch) {
  const std::string path = FreshDir() + "/a.arrows";
  WriteIpc(path, *MakeTable({{"a", arrow::int64(), "[1, 2, 3, 4, 5]"}}), 2);
  auto source = *SampleSource::Open({path});
  ASSERT_EQ(source->splits().size(), 3u);
  EXPECT_THAT(source->Read(2, {"a"})->columns[0].ints, ElementsAre(5));
  EXPECT_THAT(source->Read(0, {"a"})->columns[0].ints, ElementsAre(1, 2));
}

TEST(SampleFileTest, OtherFilesNamedArrowFail) {
  const std::string dir = FreshDir();
  WriteText(dir + "/a.arrow", "user,item\n1,2\n");
  ExpectError(dir + "/a.arrow", {"a.arrow", "not whole Arrow IPC", "user,item"});
  WriteText(dir + "/b.arrows", "");
  ExpectError(dir + "/b.arrows", {"b.arrows", "empty"});
}

// ---- CSV ----

TEST(CsvFileTest, TypesFollowFromTheValues) {
  const std::string dir = FreshDir();
  WriteText(dir + "/a.csv",
            "\xEF\xBB\xBFi,f,s,t,n\n"
            "1,0.5,x,2026-08-01 00:00:10,\n"
            ",,,,\n"
            "-3,2,\"a,\"\"b\"\"\nc\",1970-01-01 00:00:01,\n");
  auto source = SampleSource::Open({dir + "/a.csv"});
  ASSERT_TRUE(source.ok()) << source.status();
  auto rows = *(*source)->Read(0, {"s", "i", "f", "t", "n"});
  EXPECT_EQ(rows.columns[0].strings[2], "a,\"b\"\nc");
  EXPECT_TRUE(rows.columns[0].IsNull(1));
  EXPECT_THAT(rows.columns[1].ints, ElementsAre(1, 0, -3));
  EXPECT_TRUE(rows.columns[1].IsNull(1) && rows.columns[2].IsNull(1));
  EXPECT_EQ(rows.columns[2].doubles[0], 0.5);
  EXPECT_EQ(rows.columns[3].ints[2], 1);
  EXPECT_TRUE(rows.columns[4].IsNull(0));
}

TEST(CsvFileTest, TabsGzipAndLineEndsGiveTheSameRows) {
  const std::string dir = FreshDir();
  WriteText(dir + "/a.csv", "x,y\n1,a\n2,b\n");
  WriteText(dir + "/b.tsv", "x\ty\r\n1\ta\r\n\r\n2\tb");
  WriteGzip(dir + "/c.csv.gz", "x,y\n1,a\n2,b\n");
  WriteGzip(dir + "/d.tsv.gz", "x\ty\n1\ta\n2\tb\n");
  for (const char* name : {"/b.tsv", "/c.csv.gz", "/d.tsv.gz"}) {
    auto rows = Rows(dir + name);
    ASSERT_TRUE(rows.ok()) << rows.status();
    EXPECT_EQ(*rows, *Rows(dir + "/a.csv")) << name;
  }
  EXPECT_EQ((*SampleSource::Open({dir}))->rows(), 8);
}

// About 9 MB of text, so that there are several blocks, quotes and newlines at their borders.
std::string LongCsv(int rows, const std::string& last = "") {
  std::string text = "row,text\n";
  for (int i = 0; i < rows; ++i) {
    absl::StrAppend(&text, i, i % 3 == 0 ? ",\"line\nbreak " : ",\"plain ", RandomBits(1, i),
                    "\"\n");
  }
  return text + last;
}

TEST(CsvFileTest, BlocksAreReadAloneAndHoldEveryRowOnce) {
  const std::string dir = FreshDir();
  WriteText(dir + "/a.csv", LongCsv(250000));
  auto source = *SampleSource::Open({dir});
  ASSERT_GE(source->splits().size(), 2u);
  EXPECT_EQ(source->rows(), 250000);
  int64_t next = 250000;
  for (int s = static_cast<int>(source->splits().size()) - 1; s >= 0; --s) {
    auto columns = source->Read(s, {"row", "text"});
    ASSERT_TRUE(columns.ok()) << columns.status();
    next -= columns->rows;
    EXPECT_EQ(columns->columns[0].ints[0], next);
    EXPECT_EQ(columns->columns[1].strings[0],
              absl::StrCat(next % 3 == 0 ? "line\nbreak " : "plain ", RandomBits(1, next)));
  }
  EXPECT_EQ(next, 0);
}

TEST(CsvFileTest, ValueThatDoesNotFitNamesItsRowAndColumn) {
  const std::string path = FreshDir() + "/a.csv";
  WriteText(path, LongCsv(250000, "oops,1\n"));
  ExpectError(path, {"a.csv: row 250001: column row", "oops", "mend the row"});
  WriteText(path, LongCsv(250000, "5,a,b\n"));
  ExpectError(path, {"a.csv: row 250001", "mend the row"});
  WriteText(path, "a,b\n1,2\n3\n");
  ExpectError(path, {"a.csv: row 2", "mend the row"});
}

// The first block knows no value of the column, the last does.
TEST(CsvFileTest, ColumnThatStartsEmptyTakesItsTypeFromTheFirstValue) {
  const std::string path = FreshDir() + "/a.csv";
  std::string text = "pad,late\n";
  for (int i = 0; i < 60000; ++i) absl::StrAppend(&text, std::string(80, 'x'), ",\n");
  WriteText(path, text + "y,7\n");
  auto source = *SampleSource::Open({path});
  EXPECT_EQ(source->schema()[1].type, "int64");
  const int last = static_cast<int>(source->splits().size()) - 1;
  ASSERT_GT(last, 0);
  EXPECT_EQ(source->Read(last, {"late"})->columns[0].ints.back(), 7);
  EXPECT_TRUE(source->Read(0, {"late"})->columns[0].IsNull(0));
}

TEST(CsvFileTest, EmptyHeaderOnlyAndBrokenFilesHaveStatedOutcomes) {
  const std::string dir = FreshDir();
  WriteText(dir + "/a.csv", "");
  ExpectError(dir + "/a.csv", {"a.csv", "without a header"});
  WriteText(dir + "/a.csv", "x,y\n");
  ExpectError(dir + "/a.csv", {"no rows"});
  WriteText(dir + "/a.csv", "x,x\n1,2\n");
  ExpectError(dir + "/a.csv", {"column x stands twice"});
  WriteText(dir + "/a.csv", "x,y\n1,\"2\n");
  ExpectError(dir + "/a.csv", {"a.csv", "inside a quoted value"});
  WriteText(dir + "/b.csv.gz", "x,y\n1,2\n");
  ExpectError(dir + "/b.csv.gz", {"b.csv.gz"});
  WriteGzip(dir + "/b.csv.gz", LongCsv(1000));
  const std::string whole = ReadText(dir + "/b.csv.gz");
  WriteText(dir + "/b.csv.gz", whole.substr(0, whole.size() / 2));
  ExpectError(dir + "/b.csv.gz", {"b.csv.gz"});
}

// However the text is handed over, the scanner counts the rows that Arrow finds.
TEST(CsvScannerTest, CountsTheRowsThatArrowReadsInAnyText) {
  const std::string path = FreshDir() + "/a.csv";
  const char* pieces[] = {"\n", "\r\n", "\"", "\"\"", ",", "x", "12", "\r", ""};
  int read = 0;
  for (int round = 0; round < 500; ++round) {
    std::string text = "a,b\n";
    for (int i = 0; i < 12; ++i) text += pieces[RandomBelow(round, i, 9)];
    WriteText(path, text);
    auto file = OpenCsvFile(path);
    if (!file.ok() || (*file)->part_rows().empty()) continue;
    auto columns = (*file)->Read({0, 0, (*file)->part_rows()[0]}, {"a", "b"}, {});
    // Text that Arrow refuses is refused for its rows' width, never for their number.
    if (!columns.ok()) {
      EXPECT_THAT(columns.status().message(), testing::Not(HasSubstr("in place of"))) << text;
    }
    read += columns.ok();
  }
  EXPECT_GT(read, 5);
}

TEST(CsvScannerTest, BytesMayComeInAnyPortions) {
  const std::string text = "a\n1\r\n\r\n\"x\ny\"\r2\n";
  for (size_t portion = 1; portion < text.size(); ++portion) {
    CsvScanner scanner(',', 1);
    for (size_t i = 0; i < text.size(); i += portion) scanner.Add(text.substr(i, portion));
    EXPECT_TRUE(scanner.Finish());
    ASSERT_EQ(scanner.blocks().size(), 3u);
    EXPECT_EQ(scanner.blocks()[1].offset, 7);
    EXPECT_EQ(scanner.blocks()[1].bytes, 6);
    EXPECT_EQ(scanner.blocks()[2].first_row, 2);
  }
}

}  // namespace
}  // namespace starling
