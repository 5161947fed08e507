// Files from anywhere: real Parquet of many encodings, cut short and with bits,
// bytes and runs of bytes changed at random, is read whole or refused with an
// error that names the place; it never crashes, hangs or takes much memory.
//
// STARLING_SEED replaces the seed and STARLING_ROUNDS the number of mutations a
// file. Each runs in a child process, so that a crash is one failure with the
// number that replays it, and not the end of the test.
#include <arrow/io/file.h>
#include <arrow/memory_pool.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/random.h"
#include "sample_io/parquet_test_util.h"
#include "sample_io/source.h"

namespace starling {
namespace {

constexpr int kRows = 300;
constexpr int64_t kArrowBytesMax = 64 << 20;
constexpr int64_t kResidentKibMax = 1 << 20;  // ASan's own included.
constexpr int kSecondsMax = 120;              // Of a child: a hang is a crash by SIGALRM.

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

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

struct Mutation {
  std::string bytes;
  std::string what;
  bool cut = false, in_pages = false;
};

// The footer is a small part of a file and the more fragile one: half of the
// changes go there.
Mutation Mutate(const std::string& whole, size_t pages, uint64_t seed, int i) {
  auto below = [&, draw = 0](uint64_t n) mutable { return RandomBelow(seed, i * 64 + draw++, n); };
  Mutation m;
  m.bytes = whole;
  if (below(8) == 0) {
    m.cut = true;
    m.bytes.resize(below(whole.size()));
    m.what = absl::StrCat("cut to ", m.bytes.size());
    return m;
  }
  m.in_pages = below(2) == 0;
  const size_t begin = m.in_pages ? 4 : pages, end = m.in_pages ? pages : whole.size();
  const size_t at = begin + below(end - begin);
  switch (below(4)) {
    case 0:
    case 1:
      m.bytes[at] ^= static_cast<char>(1 << below(8));
      m.what = absl::StrCat("a bit of byte ", at);
      break;
    case 2:
      m.bytes[at] = static_cast<char>(below(256));
      m.what = absl::StrCat("byte ", at);
      break;
    default: {
      const size_t length = std::min<size_t>(1 + below(12), end - at);
      const uint64_t kind = below(3);
      for (size_t b = at; b < at + length; ++b) {
        m.bytes[b] = static_cast<char>(kind == 0 ? 0 : kind == 1 ? 0xff : below(256));
      }
      m.what = absl::StrCat(length, " bytes from ", at);
    }
  }
  return m;
}

absl::StatusOr<int64_t> ReadRows(const std::string& path) {
  auto source = SampleSource::Open({path});
  if (!source.ok()) return source.status();
  std::vector<std::string> names;
  for (const ColumnSchema& column : (*source)->schema()) names.push_back(column.name);
  int64_t rows = 0;
  for (size_t s = 0; s < (*source)->splits().size(); ++s) {
    auto batch = (*source)->Read(static_cast<int>(s), names);
    if (!batch.ok()) return batch.status();
    for (const Column& column : batch->columns) {
      if (column.rows != batch->rows) return absl::InternalError("columns of unequal length");
      for (int64_t row = 0; row < column.rows; ++row) {  // Touches every value.
        if (!column.IsNull(row)) std::ignore = ValueText(column, row);
      }
    }
    rows += batch->rows;
  }
  return rows;
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

// Shared between the test and its child.
struct Progress {
  int at = 0, read = 0, refused = 0;
  int64_t arrow_bytes = 0;
  char wrong[2000] = {};
};

class MutatedFileTest : public testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    path_ = FreshDir() + "/m.parquet";
    WriteVariant(path_, GetParam());
    whole_ = ReadText(path_);
    const auto* tail = reinterpret_cast<const uint8_t*>(whole_.data() + whole_.size() - 8);
    pages_ = whole_.size() - 8 - (tail[0] | tail[1] << 8 | tail[2] << 16 | uint32_t{tail[3]} << 24);
    void* shared = ::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    progress_ = new (shared) Progress;
  }
  void TearDown() override {
    ::munmap(progress_, sizeof(Progress));
    std::filesystem::remove_all(std::filesystem::path(path_).parent_path());
  }

  // In the child: all mutations from progress_->at on.
  void ReadMutations(int rounds) {
    // Tests before this one, in the same process, may have taken more.
    const int64_t limit = std::max(kArrowBytesMax, arrow::default_memory_pool()->max_memory());
    for (; progress_->at < rounds; ++progress_->at) {
      const Mutation m = Mutate(whole_, pages_, seed_, progress_->at);
      WriteText(path_, m.bytes);
      const auto rows = ReadRows(path_);
      ++(rows.ok() ? progress_->read : progress_->refused);
      progress_->arrow_bytes = arrow::default_memory_pool()->max_memory();
      std::string wrong = Judge(m, rows);
      if (progress_->arrow_bytes > limit && wrong.empty()) wrong = "too much memory";
      if (wrong.empty()) continue;
      absl::StrAppend(&wrong, " (mutation ", progress_->at, ": ", m.what, ")");
      std::strncpy(progress_->wrong, wrong.c_str(), sizeof(progress_->wrong) - 1);
      return;
    }
  }

  // True once there is no more to do.
  bool RunChild(int rounds) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(kSecondsMax);
      ReadMutations(rounds);
      ::_exit(0);
    }
    int status = 0;
    struct rusage usage = {};
    EXPECT_EQ(::wait4(child, &status, 0, &usage), child);
    EXPECT_LE(usage.ru_maxrss, kResidentKibMax) << "KiB by mutation " << progress_->at;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      ADD_FAILURE() << "died at mutation " << progress_->at << " ("
                    << Mutate(whole_, pages_, seed_, progress_->at).what << "), status " << status;
    }
    EXPECT_STREQ(progress_->wrong, "");
    progress_->wrong[0] = 0;
    return progress_->at++ >= rounds;
  }

  const uint64_t seed_ = FromEnvironment("STARLING_SEED", 20240601);
  std::string path_, whole_;
  size_t pages_ = 0;  // Where the pages end and the footer starts.
  Progress* progress_ = nullptr;
};

TEST_P(MutatedFileTest, IsReadWholeOrRefusedWithItsPlace) {
  ASSERT_EQ(ReadRows(path_).value_or(-1), kRows);
  const auto rounds = static_cast<int>(FromEnvironment("STARLING_ROUNDS", 250));
  SCOPED_TRACE(absl::StrCat("STARLING_SEED=", seed_, " STARLING_ROUNDS=", rounds));
  for (int failures = 0; !RunChild(rounds); ++failures) {
    ASSERT_LT(failures, 5) << "and so on";
  }
  RecordProperty("read", progress_->read);
  RecordProperty("refused", progress_->refused);
  RecordProperty("arrow_bytes", absl::StrCat(progress_->arrow_bytes));
  EXPECT_EQ(progress_->read + progress_->refused, rounds);
  EXPECT_GT(progress_->refused, rounds / 10);
}

INSTANTIATE_TEST_SUITE_P(Encodings, MutatedFileTest, testing::ValuesIn(kVariants),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace starling
