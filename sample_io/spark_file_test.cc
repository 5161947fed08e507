// Parquet as Spark itself writes it (testdata/make_spark_files.py): INT96 and other
// times, decimals, both layouts of lists, its codecs, encodings and row groups. Every
// file holds the same rows, computed here by the formulas of the script.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sample_io/source.h"

namespace starling {
namespace {

constexpr int64_t kRows = 40;
constexpr int64_t kFirstDay = 1785542400;  // 2026-08-01, in seconds.
const std::string kNull = "null";

using Text = std::function<std::string(int64_t row)>;
using Words = std::vector<std::string>;

std::string Unless(int64_t row, int64_t every, const std::string& value) {
  return row % every == 0 ? kNull : value;
}

Words Count(int64_t n, const std::function<std::string(int64_t)>& word) {
  Words words;
  for (int64_t j = 0; j < n; ++j) words.push_back(word(j));
  return words;
}

std::string List(const Words& words) { return absl::StrCat("[", absl::StrJoin(words, ", "), "]"); }

std::string Time(int64_t i) {
  if (i == 3) return "-2";  // Half a second after it, rounded down.
  return Unless(i, 8, absl::StrCat(kFirstDay + 3601 * i));
}

// Without the third: a null of a list is dropped.
std::string Tags(int64_t i) {
  return Unless(i, 9, List(Count(std::min<int64_t>(i % 4, 2), [i](int64_t j) {
                  return absl::StrCat(10 * i + j);
                })));
}

std::string Scores(int64_t i) {
  const Words entries = Count(i % 3, [i](int64_t j) {
    return absl::StrCat("k", j, ": ", 0.5 * static_cast<double>(i) + static_cast<double>(j));
  });
  return absl::StrCat("{", absl::StrJoin(entries, ", "), "}");
}

struct Expected {
  const char* column;
  Text text;
};
const Expected kExpected[] = {
    {"id", [](int64_t i) { return absl::StrCat(i * 7919 - 200000); }},
    {"narrow", [](int64_t i) { return Unless(i, 5, absl::StrCat(i - 20)); }},
    {"short", [](int64_t i) { return absl::StrCat(i % 7 - 3); }},
    {"real", [](int64_t i) { return Unless(i, 4, absl::StrCat(static_cast<double>(i) / 8)); }},
    {"single", [](int64_t i) { return absl::StrCat(static_cast<double>(i) / 4); }},
    {"text", [](int64_t i) { return Unless(i, 6, absl::StrCat("v", i % 7, " é")); }},
    {"flag", [](int64_t i) { return absl::StrCat(i % 3 == 0 ? 1 : 0); }},
    {"day", [](int64_t i) { return absl::StrCat(kFirstDay + 86400 * i); }},
    {"time", Time},
    {"money",
     [](int64_t i) { return Unless(i, 7, absl::StrCat(1.25 * static_cast<double>(i) - 10)); }},
    {"wide", [](int64_t i) { return absl::StrCat((31 * static_cast<double>(i) - 500) / 1e4); }},
    {"huge", [](int64_t i) { return absl::StrCat((1e20 + static_cast<double>(i)) / 1e6); }},
    {"tags", Tags},
    {"full_tags",
     [](int64_t i) {
       return List(Count(i % 4, [i](int64_t j) { return absl::StrCat(10 * i + j); }));
     }},
    {"words",
     [](int64_t i) { return List(Count(i % 3, [](int64_t j) { return absl::StrCat("t", j); })); }},
    {"scores", Scores},
    {"user.age", [](int64_t i) { return Unless(i, 10, absl::StrCat(20 + i)); }},
    {"user.city", [](int64_t i) { return Unless(i, 10, absl::StrCat("c", i % 4)); }},
};

// Members of impressions: what element j of row i holds.
struct ExpectedMember {
  const char* name;
  std::function<std::string(int64_t i, int64_t j)> text;
};
const ExpectedMember kMembers[] = {
    {"item", [](int64_t i, int64_t j) { return absl::StrCat(100 * i + j); }},
    {"price",
     [](int64_t i, int64_t j) {
       return j == 1 ? kNull : absl::StrCat(static_cast<double>(i + j) / 4);
     }},
    {"word", [](int64_t, int64_t j) { return absl::StrCat("w", j); }},
};

std::string TextAt(const Column& column, int64_t row) {
  return column.IsNull(row) ? kNull : ValueText(column, row);
}

class SparkFileTest : public testing::TestWithParam<const char*> {
 protected:
  // The values of a column, of members one list a row, read with the budget.
  static std::vector<std::string> Read(const std::string& name, int64_t read_memory = 0) {
    const std::string path = absl::StrCat(SAMPLE_IO_TESTDATA, "/spark/", GetParam(), ".parquet");
    auto source = SampleSource::Open({path}, {.read_memory = read_memory});
    EXPECT_TRUE(source.ok()) << source.status();
    std::vector<std::string> texts;
    for (size_t split = 0; source.ok() && split < (*source)->splits().size(); ++split) {
      auto batch = (*source)->Read(static_cast<int>(split), {name});
      EXPECT_TRUE(batch.ok()) << batch.status();
      if (batch.ok()) Append(batch->columns[0], batch->rows, &texts);
    }
    return texts;
  }

 private:
  static void Append(const Column& column, int64_t rows, std::vector<std::string>* texts) {
    const std::vector<int32_t>& outer = column.outer_offsets;
    for (int64_t row = 0; row < rows; ++row) {
      if (outer.empty()) {
        texts->push_back(TextAt(column, row));
        continue;
      }
      texts->push_back(List(Count(outer[row + 1] - outer[row],
                                  [&](int64_t j) { return TextAt(column, outer[row] + j); })));
    }
  }
};

TEST_P(SparkFileTest, HoldsTheValuesThatWereWritten) {
  for (const Expected& expected : kExpected) {
    EXPECT_EQ(Read(expected.column), Count(kRows, expected.text)) << expected.column;
  }
}

TEST_P(SparkFileTest, MembersOfListsOfStructsAreRowsOfTheirOwn) {
  for (const ExpectedMember& member : kMembers) {
    auto all = [&](int64_t i) {
      return List(Count(i % 3, [&](int64_t j) { return member.text(i, j); }));
    };
    auto some = [&](int64_t i) { return i % 11 == 0 ? "[]" : all(i); };  // A null list is empty.
    EXPECT_EQ(Read(absl::StrCat("impressions.", member.name)), Count(kRows, some)) << member.name;
    EXPECT_EQ(Read(absl::StrCat("full_impressions.", member.name)), Count(kRows, all));
  }
}

TEST_P(SparkFileTest, ReadsInPiecesAsWhole) {
  constexpr int64_t kSmall = 16 << 10;  // Cuts a row group of these into several splits.
  for (const char* column : {"id", "real", "text", "time", "huge", "tags", "scores", "user.age",
                             "impressions.item", "full_impressions.price"}) {
    EXPECT_EQ(Read(column, kSmall), Read(column)) << column;
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, SparkFileTest,
                         testing::Values("snappy_int96", "zstd_micros", "gzip_millis",
                                         "plain_pages", "legacy", "v2_delta", "row_groups"));

}  // namespace
}  // namespace starling
