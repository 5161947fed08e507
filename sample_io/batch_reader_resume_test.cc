// Exact positions: a reader that stops anywhere and another that goes on from
// there give, together, what one reader gives; with four threads, many files,
// shuffle, a predicate and every way of sampling.
#include <arrow/table.h>
#include <arrow/type.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/random.h"
#include "sample_io/batch_reader.h"
#include "sample_io/parquet_test_util.h"

namespace starling {
namespace {

constexpr int kFiles = 30, kFileRows = 130;

struct Read {
  BatchName name;
  std::vector<float> rows;
  bool operator==(const Read& o) const { return name == o.name && rows == o.rows; }
};

struct Way {
  const char* name;
  const char* where;
  double rate;
  const char* weight;
  bool replacement, requests;
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

class ReaderResumeTest : public testing::TestWithParam<Way> {
 protected:
  // x numbers the rows of all files; w is x % 3; requests have 1..4 rows.
  void SetUp() override {
    const std::string dir = FreshDir();
    auto json = [](const auto& v) { return absl::StrCat("[", absl::StrJoin(v, ","), "]"); };
    for (int f = 0; f < kFiles; ++f) {
      std::vector<int> x, w, y, r;
      for (int i = 0; i < kFileRows; ++i) {
        x.push_back(f * kFileRows + i);
        w.push_back(x.back() % 3);
        y.push_back(i % 2);
        r.push_back(i % 10 / 4 + i / 10 * 3);
      }
      TestFileOptions options;
      options.row_group_rows = 50;
      WriteParquet(absl::StrCat(dir, "/", f, ".parquet"),
                   *MakeTable({{"x", arrow::int64(), json(x)},
                               {"w", arrow::float32(), json(w)},
                               {"y", arrow::int32(), json(y)},
                               {"r", arrow::int64(), json(r)}}),
                   options);
    }
    source_ = *SampleSource::Open({dir}, {GetParam().where});
    FeatureSet set;
    set.set_tables(1);
    set.add_ids()->set_name("x");
    set.mutable_ids(0)->set_table(0);
    set.add_raws()->set_name("x");
    set.set_label("y");
    if (GetParam().requests) set.set_request("r");
    compiler_ = *FeatureCompiler::Create(set);
    options_ = {.batch_rows = 7, .shuffle = true, .seed = 3, .threads = 4, .queue_max = 6};
    options_.sample.set_rate(GetParam().rate);
    options_.sample.set_replacement(GetParam().replacement);
    if (GetParam().weight[0] != 0) options_.sample.set_weight(GetParam().weight);
  }

  // Up to `batches` batches from `start`; the position behind them.
  std::vector<Read> Some(int batches, ReaderPosition* start) {
    auto reader = *BatchReader::Create(source_.get(), compiler_.get(), options_, *start);
    std::vector<Read> reads;
    Batch batch;
    absl::Status status;
    for (int i = 0; i < batches && (status = reader->Next(&batch)).ok(); ++i) {
      reads.push_back({batch.name, batch.dense});
      *start = reader->position();
    }
    EXPECT_TRUE(status.ok() || absl::IsOutOfRange(status)) << status;
    return reads;
  }

  std::unique_ptr<SampleSource> source_;
  std::unique_ptr<FeatureCompiler> compiler_;
  BatchReaderOptions options_;
};

TEST_P(ReaderResumeTest, NoRowIsRepeatedOrMissingAtRandomPositions) {
  ReaderPosition at;
  const std::vector<Read> whole = Some(1 << 20, &at);
  ASSERT_GT(whole.size(), 100u);
  for (int round = 0; round < 12; ++round) {
    std::vector<Read> pieces;
    ReaderPosition position;
    for (int piece = 0;; ++piece) {
      const int batches = 1 + static_cast<int>(RandomBelow(9, 100 * round + piece, 150));
      const std::vector<Read> some = Some(batches, &position);
      pieces.insert(pieces.end(), some.begin(), some.end());
      if (static_cast<int>(some.size()) < batches) break;
    }
    ASSERT_EQ(pieces.size(), whole.size());
    ASSERT_TRUE(pieces == whole) << "round " << round;
  }
}

// What was read is what the options say.
TEST_P(ReaderResumeTest, RowsAreThoseThatMatchAndWereSampled) {
  const Way& way = GetParam();
  ReaderPosition at;
  std::map<int, int> times;
  std::set<uint64_t> names;
  for (const Read& read : Some(1 << 20, &at)) {
    names.insert((uint64_t{read.name.split} << 32) | read.name.batch);
    for (float x : read.rows) ++times[static_cast<int>(x)];
  }
  EXPECT_GT(names.size(), 100u);
  double expected = 0, found = 0;
  for (int x = 0; x < kFiles * kFileRows; ++x) {
    const bool matches = way.where[0] == 0 || (x >= 1000 && x % 130 != 0);
    const double mean = matches ? way.rate * (way.weight[0] != 0 ? x % 3 : 1) : 0;
    expected += way.replacement ? mean : std::min(mean, 1.0);
    found += times[x];
    const int most = mean == 0 ? 0 : way.replacement ? 1000 : 1;
    EXPECT_LE(times[x], most) << x;
    EXPECT_GE(times[x], !way.replacement && mean >= 1 ? 1 : 0) << x;
  }
  EXPECT_NEAR(found, expected, way.requests ? 10 * std::sqrt(expected) : 5 * std::sqrt(expected));
}

// In the pass that is read, and not in the one before.
TEST_P(ReaderResumeTest, EveryPassIsSampledAndShuffledAnew) {
  ReaderPosition first{0, 0, 0}, second{1, 0, 0};
  std::vector<float> a, b;
  for (const Read& read : Some(1 << 20, &first))
    a.insert(a.end(), read.rows.begin(), read.rows.end());
  for (const Read& read : Some(1 << 20, &second))
    b.insert(b.end(), read.rows.begin(), read.rows.end());
  EXPECT_NE(a, b);
}

constexpr char kWhere[] =
    "x >= 1000 and not (x in (1040, 1170, 1300, 1430, 1560, 1690, 1820, 1950, 2080, 2210, 2340, "
    "2470, 2600, 2730, 2860, 2990, 3120, 3250, 3380, 3510, 3640, 3770))";

INSTANTIATE_TEST_SUITE_P(Ways, ReaderResumeTest,
                         testing::Values(Way{"Plain", "", 1, "", false, false},
                                         Way{"Where", kWhere, 1, "", false, false},
                                         Way{"Sampled", "", 0.5, "", false, false},
                                         Way{"Replaced", kWhere, 1.5, "", true, false},
                                         Way{"Weighted", kWhere, 0.7, "w", false, false},
                                         Way{"WeightedReplaced", "", 1, "w", true, false},
                                         Way{"RequestsReplaced", kWhere, 0.8, "", true, true}),
                         [](const auto& info) { return info.param.name; });

TEST_P(ReaderResumeTest, PositionBeyondTheDataIsRefused) {
  auto reader = BatchReader::Create(source_.get(), compiler_.get(), options_, {0, 100000, 0});
  EXPECT_EQ(reader.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace starling
