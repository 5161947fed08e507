// As mutated_file_test, for the formats beside Parquet: Arrow IPC files and
// streams and text, plain and gzipped. None but gzip has checksums, so a changed
// byte may be another value; it may never be a crash or an error without the file's name.
#include <arrow/io/compressed.h>
#include <arrow/io/file.h>
#include <arrow/ipc/writer.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <arrow/util/compression.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sample_io/mutation_test_util.h"
#include "sample_io/parquet_test_util.h"

namespace starling {
namespace {

constexpr int kRows = 200;

struct Format {
  const char* name;
  const char* extension;
  bool whole;  // A file cut short is always refused.
};
void PrintTo(const Format& format, std::ostream* out) { *out << format.name; }

std::string Json(const std::vector<std::string>& values) {
  return absl::StrCat("[", absl::StrJoin(values, ","), "]");
}

std::shared_ptr<arrow::Table> EveryKind() {
  std::vector<std::string> ints, floats, strings, lists, maps;
  for (int i = 0; i < kRows; ++i) {
    ints.push_back(i % 11 == 0 ? "null" : absl::StrCat(i * 7919));
    floats.push_back(absl::StrCat(i / 8.0));
    strings.push_back(absl::StrCat("\"value ", i % 9, "\""));
    lists.push_back(i % 5 == 0 ? "null" : absl::StrCat("[", i, ", null]"));
    maps.push_back(absl::StrCat("[[\"k\", ", i, "]]"));
  }
  return MakeTable({{"ints", arrow::int64(), Json(ints)},
                    {"floats", arrow::float64(), Json(floats)},
                    {"strings", arrow::utf8(), Json(strings)},
                    {"lists", arrow::list(arrow::int64()), Json(lists)},
                    {"maps", arrow::map(arrow::utf8(), arrow::int64()), Json(maps)},
                    {"coded", arrow::dictionary(arrow::int32(), arrow::utf8()), Json(strings)}});
}

void WriteIpc(const std::string& path, bool stream) {
  auto out = *arrow::io::FileOutputStream::Open(path);
  auto table = EveryKind();
  auto writer = stream ? *arrow::ipc::MakeStreamWriter(out, table->schema())
                       : *arrow::ipc::MakeFileWriter(out, table->schema());
  ASSERT_TRUE(writer->WriteTable(*table, 80).ok() && writer->Close().ok() && out->Close().ok());
}

void WriteCsv(const std::string& path, const char* separator, bool gzipped) {
  std::string text = absl::StrJoin({"ints", "floats", "strings"}, separator) + "\n";
  for (int i = 0; i < kRows; ++i) {
    absl::StrAppend(&text, i % 11 == 0 ? "" : absl::StrCat(i * 7919), separator, i / 8.0, separator,
                    i % 4 == 0 ? "\"quoted, value\"" : absl::StrCat("value ", i % 9), "\n");
  }
  if (!gzipped) return WriteText(path, text);
  auto codec = *arrow::util::Codec::Create(arrow::Compression::GZIP);
  auto out = *arrow::io::CompressedOutputStream::Make(codec.get(),
                                                      *arrow::io::FileOutputStream::Open(path));
  ASSERT_TRUE(out->Write(text.data(), static_cast<int64_t>(text.size())).ok());
  ASSERT_TRUE(out->Close().ok());
}

void Write(const std::string& path, const Format& format) {
  const absl::string_view extension = format.extension;
  if (absl::StartsWith(extension, ".arrow")) return WriteIpc(path, extension == ".arrows");
  WriteCsv(path, absl::StartsWith(extension, ".tsv") ? "\t" : ",",
           absl::EndsWith(extension, ".gz"));
}

class MutatedFormatTest : public testing::TestWithParam<Format> {};

TEST_P(MutatedFormatTest, IsReadOrRefusedWithItsName) {
  const Format& format = GetParam();
  const std::string dir = FreshDir(), path = absl::StrCat(dir, "/m", format.extension);
  Write(path, format);
  ASSERT_EQ(ReadRows(path).value_or(-1), kRows) << ReadRows(path).status();
  auto judge = [&](const Mutation& m, const absl::StatusOr<int64_t>& rows) -> std::string {
    if (rows.ok()) return m.cut && format.whole ? "a file cut short was read" : "";
    const bool good = rows.status().code() == absl::StatusCode::kFailedPrecondition &&
                      absl::StrContains(rows.status().message(), path);
    return good ? "" : rows.status().ToString();
  };
  const size_t size = std::filesystem::file_size(path);
  const MutationCounts counts = RunMutations(path, size - size / 4, 200, judge);
  EXPECT_EQ(counts.read + counts.refused, counts.rounds);
  EXPECT_GT(counts.refused, counts.rounds / 50);
  std::filesystem::remove_all(dir);
}

INSTANTIATE_TEST_SUITE_P(Formats, MutatedFormatTest,
                         testing::Values(Format{"ArrowFile", ".arrow", true},
                                         Format{"ArrowStream", ".arrows", true},
                                         Format{"Csv", ".csv", false}, Format{"Tsv", ".tsv", false},
                                         Format{"CsvGzip", ".csv.gz", true}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace starling
