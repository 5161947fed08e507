// Files from anywhere: real Parquet of many encodings, cut short and with bits,
// bytes and runs of bytes changed at random, is read whole or refused with an
// error that names the place; it never crashes, hangs or takes much memory.
#include <arrow/io/file.h>
#include <arrow/memory_pool.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/random.h"
#include "sample_io/mutation_test_util.h"
#include "sample_io/parquet_test_util.h"

namespace starling {
namespace {

constexpr int kRows = 300;

struct Variant {
  const char* name;
  parquet::Compression::type compression;
  bool dictionary;
  parquet::Encoding::type ints, floats, strings;  // Without a dictionary.
  bool page_v2, statistics, checksums;
};

void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }

using parquet::Compression;
using parquet::Encoding;
const Variant kVariants[] = {
    {"PlainBare", Compression::UNCOMPRESSED, false, Encoding::PLAIN, Encoding::PLAIN,
     Encoding::PLAIN, false, false, false},
    {"PlainSnappyChecked", Compression::SNAPPY, false, Encoding::PLAIN, Encoding::PLAIN,
     Encoding::PLAIN, false, true, true},
    {"DictionaryBare", Compression::UNCOMPRESSED, true, Encoding::PLAIN, Encoding::PLAIN,
     Encoding::PLAIN, false, true, false},
    {"DictionaryZstdChecked", Compression::ZSTD, true, Encoding::PLAIN, Encoding::PLAIN,
     Encoding::PLAIN, true, true, true},
    {"DeltaBare", Compression::UNCOMPRESSED, false, Encoding::DELTA_BINARY_PACKED,
     Encoding::BYTE_STREAM_SPLIT, Encoding::DELTA_BYTE_ARRAY, true, false, false},
    {"DeltaLz4", Compression::LZ4, false, Encoding::DELTA_BINARY_PACKED,
     Encoding::BYTE_STREAM_SPLIT, Encoding::DELTA_LENGTH_BYTE_ARRAY, false, true, false},
    {"DictionaryGzip", Compression::GZIP, true, Encoding::PLAIN, Encoding::PLAIN, Encoding::PLAIN,
     false, true, false},
    {"DeltaBrotliChecked", Compression::BROTLI, false, Encoding::DELTA_BINARY_PACKED,
     Encoding::PLAIN, Encoding::DELTA_BYTE_ARRAY, true, true, true},
};

// Every type that has a place in a Column, with nulls in most.
std::shared_ptr<arrow::Table> EveryType() {
  std::vector<std::string> ints, floats, strings, words, bools, days, lists, texts;
  for (int i = 0; i < kRows; ++i) {
    auto or_null = [i](int n, std::string value) { return i % n == 0 ? "null" : value; };
    ints.push_back(or_null(11, absl::StrCat(RandomBelow(1, i, 1 << 20))));
    floats.push_back(or_null(13, absl::StrCat(RandomUniform(2, i))));
    strings.push_back(absl::StrCat("\"value ", RandomBelow(3, i, 50), "\""));
    words.push_back(or_null(7, absl::StrCat("\"", std::string(i % 9, 'w'), i, "\"")));
    bools.push_back(i % 5 == 0 ? "true" : "false");
    days.push_back(absl::StrCat(19000 + i / 10));
    lists.push_back(or_null(17, i % 4 == 0 ? "[]" : absl::StrCat("[", i, ", null, ", i % 3, "]")));
    texts.push_back(absl::StrCat("[\"a", i % 6, "\", \"", i, "\"]"));
  }
  auto json = [](const auto& v) { return absl::StrCat("[", absl::StrJoin(v, ","), "]"); };
  return MakeTable({{"ints", arrow::int64(), json(ints)},
                    {"narrow", arrow::int32(), json(ints)},
                    {"floats", arrow::float64(), json(floats)},
                    {"halves", arrow::float32(), json(floats)},
                    {"strings", arrow::utf8(), json(strings)},
                    {"words", arrow::large_utf8(), json(words)},
                    {"coded", arrow::dictionary(arrow::int32(), arrow::utf8()), json(strings)},
                    {"bools", arrow::boolean(), json(bools)},
                    {"days", arrow::date32(), json(days)},
                    {"times", arrow::timestamp(arrow::TimeUnit::MICRO), json(ints)},
                    {"lists", arrow::list(arrow::int64()), json(lists)},
                    {"texts", arrow::list(arrow::utf8()), json(texts)}});
}

void WriteVariant(const std::string& path, const Variant& variant) {
  parquet::WriterProperties::Builder builder;
  builder.compression(variant.compression)->data_pagesize(1000);
  if (variant.page_v2) builder.data_page_version(parquet::ParquetDataPageVersion::V2);
  if (variant.checksums) builder.enable_page_checksum();
  variant.statistics ? builder.enable_write_page_index() : builder.disable_statistics();
  if (!variant.dictionary) {
    builder.disable_dictionary();
    for (const char* name : {"ints", "narrow", "days", "times", "lists.list.element"}) {
      builder.encoding(name, variant.ints);
    }
    for (const char* name : {"floats", "halves"}) builder.encoding(name, variant.floats);
    for (const char* name : {"strings", "words", "texts.list.element"}) {
      builder.encoding(name, variant.strings);
    }
  }
  parquet::ArrowWriterProperties::Builder arrow_builder;
  arrow_builder.store_schema();
  auto file = arrow::io::FileOutputStream::Open(path).ValueOrDie();
  auto status = parquet::arrow::WriteTable(*EveryType(), arrow::default_memory_pool(), file,
                                           kRows / 2, builder.build(), arrow_builder.build());
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_TRUE(file->Close().ok());
}

// What is wrong with the outcome; empty if nothing.
std::string Judge(const Mutation& m, const absl::StatusOr<int64_t>& rows) {
  if (rows.ok() && m.cut) return "a file cut short was read";
  if (rows.ok() && *rows != kRows) return absl::StrCat("read as ", *rows, " rows");
  if (rows.ok()) return "";
  const absl::string_view message = rows.status().message();
  if (rows.status().code() != absl::StatusCode::kFailedPrecondition ||
      !absl::StrContains(message, "m.parquet")) {
    return rows.status().ToString();
  }
  const bool placed =
      absl::StrContains(message, ": row group ") && absl::StrContains(message, ": column ");
  return m.in_pages && !placed ? absl::StrCat("without its place: ", message) : "";
}

class MutatedFileTest : public testing::TestWithParam<Variant> {};

TEST_P(MutatedFileTest, IsReadWholeOrRefusedWithItsPlace) {
  const std::string dir = FreshDir(), path = dir + "/m.parquet";
  WriteVariant(path, GetParam());
  ASSERT_EQ(ReadRows(path).value_or(-1), kRows);
  const std::string whole = ReadText(path);
  const auto* tail = reinterpret_cast<const uint8_t*>(whole.data() + whole.size() - 8);
  const size_t footer = tail[0] | tail[1] << 8 | tail[2] << 16 | uint32_t{tail[3]} << 24;
  const MutationCounts counts = RunMutations(path, whole.size() - 8 - footer, 250, Judge);
  RecordProperty("read", counts.read);
  RecordProperty("refused", counts.refused);
  EXPECT_EQ(counts.read + counts.refused, counts.rounds);
  EXPECT_GT(counts.refused, counts.rounds / 10);
  std::filesystem::remove_all(dir);
}

INSTANTIATE_TEST_SUITE_P(Encodings, MutatedFileTest, testing::ValuesIn(kVariants),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace starling
