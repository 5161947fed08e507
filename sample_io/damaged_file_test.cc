// Files cut short, and files with flipped bits: an error or the true rows, and
// never a crash. The pages carry checksums, without which no reader can tell a
// flipped bit of a value from another value.
#include <arrow/table.h>
#include <arrow/type.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/random.h"
#include "sample_io/parquet_test_util.h"
#include "sample_io/source.h"

namespace starling {
namespace {

using testing::HasSubstr;

class DamagedFileTest : public testing::TestWithParam<TestFileOptions> {
 protected:
  void SetUp() override {
    path_ = FreshDir() + "/a.parquet";
    WriteWideFile();
    Remember();
  }

  void WriteWideFile() const {
    std::vector<std::string> ints, floats, strings, lists;
    for (int i = 0; i < 500; ++i) {
      ints.push_back(i % 11 == 0 ? "null" : absl::StrCat(RandomBelow(1, i, 1000)));
      floats.push_back(absl::StrCat(RandomUniform(2, i)));
      strings.push_back(absl::StrCat("\"value ", RandomBelow(3, i, 50), "\""));
      lists.push_back(absl::StrCat("[", i, ", ", i % 3, "]"));
    }
    auto json = [](const auto& v) { return absl::StrCat("[", absl::StrJoin(v, ","), "]"); };
    WriteParquet(path_,
                 *MakeTable({{"i", arrow::int64(), json(ints)},
                             {"f", arrow::float64(), json(floats)},
                             {"s", arrow::utf8(), json(strings)},
                             {"d", arrow::dictionary(arrow::int32(), arrow::utf8()), json(strings)},
                             {"l", arrow::list(arrow::int64()), json(lists)}}),
                 GetParam());
  }

  void Remember() {
    whole_ = ReadText(path_);
    truth_ = *Rows();
    const auto* tail = reinterpret_cast<const uint8_t*>(whole_.data() + whole_.size() - 8);
    uint32_t footer = tail[0] | tail[1] << 8 | tail[2] << 16 | uint32_t{tail[3]} << 24;
    pages_ = whole_.size() - 8 - footer;
  }

  // All rows as text, or the first error.
  absl::StatusOr<std::vector<std::string>> Rows() const {
    auto source = SampleSource::Open({path_});
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

  static void ExpectGoodError(const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(status.message(), HasSubstr("a.parquet"));
  }

  std::string path_, whole_;
  std::vector<std::string> truth_;
  size_t pages_ = 0;  // Where the pages end and the footer starts.
};

TEST_P(DamagedFileTest, CutShortAnywhereIsAnError) {
  for (int i = 0; i < 100; ++i) {
    WriteText(path_, whole_.substr(0, RandomBelow(7, i, whole_.size())));
    auto rows = Rows();
    ASSERT_FALSE(rows.ok());
    ExpectGoodError(rows.status());
  }
}

TEST_P(DamagedFileTest, FlippedBitInAPageIsAnErrorOrChangesNoRow) {
  int errors = 0;
  for (int i = 0; i < 200; ++i) {
    const uint64_t bit = RandomBelow(8, i, 8 * pages_);
    std::string damaged = whole_;
    damaged[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    WriteText(path_, damaged);
    auto rows = Rows();
    if (rows.ok()) {
      EXPECT_EQ(*rows, truth_) << "bit " << bit;
    } else {
      ExpectGoodError(rows.status());
      ++errors;
    }
  }
  EXPECT_GT(errors, 100);
}

// The footer has no checksum: a flip may rename a column. It must not crash.
TEST_P(DamagedFileTest, FlippedBitInTheFooterNeverCrashes) {
  int errors = 0;
  for (int i = 0; i < 100; ++i) {
    const uint64_t bit = 8 * pages_ + RandomBelow(9, i, 8 * (whole_.size() - pages_));
    std::string damaged = whole_;
    damaged[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    WriteText(path_, damaged);
    auto rows = Rows();
    if (rows.ok()) continue;
    ExpectGoodError(rows.status());
    ++errors;
  }
  EXPECT_GT(errors, 0);
}

// Its counts of rows must agree: no single flip makes rows vanish or appear.
TEST_P(DamagedFileTest, NoFlippedBitInTheFooterChangesTheNumberOfRows) {
  std::vector<int> values(60, 7);
  const std::string json = absl::StrCat("[", absl::StrJoin(values, ","), "]");
  WriteParquet(path_, *MakeTable({{"i", arrow::int64(), json}}), {40, GetParam().compression});
  Remember();
  const size_t end = whole_.find("ARROW:schema");  // Texts from there on.
  ASSERT_NE(end, std::string::npos);
  int errors = 0;
  for (uint64_t bit = 8 * pages_; bit < 8 * end; ++bit) {
    std::string damaged = whole_;
    damaged[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    WriteText(path_, damaged);
    auto rows = Rows();
    errors += !rows.ok();
    EXPECT_EQ(rows.ok() ? rows->size() : 60, 60) << "bit " << bit;
  }
  EXPECT_GT(errors, 100);
}

TEST_P(DamagedFileTest, DamagedPageNamesRowGroupAndColumn) {
  std::string damaged = whole_;
  damaged.replace(4, pages_ - 4, pages_ - 4, '\x55');
  WriteText(path_, damaged);
  absl::Status status = Rows().status();
  ExpectGoodError(status);
  EXPECT_THAT(status.message(), HasSubstr("row group 0: column i"));
  EXPECT_THAT(status.message(), HasSubstr("write it again"));
}

INSTANTIATE_TEST_SUITE_P(Encodings, DamagedFileTest,
                         testing::Values(TestFileOptions{200, "snappy", true, true},
                                         TestFileOptions{200, "zstd", false, true}),
                         [](const auto& info) { return info.param.compression; });

}  // namespace
}  // namespace starling
