#include "sample_io/generator.h"

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <gtest/gtest.h>
#include <parquet/arrow/reader.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/test_root.h"
#include "sample_io/planted_model.h"
#include "sample_io/planted_slots.h"

namespace starling {
namespace {

class GeneratorTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = JoinPath(TestRoot(), "generated");
    ASSERT_TRUE(MakeDirs(dir_).ok());
  }
  void TearDown() override {
    SetFileFault(nullptr);
    RemoveAll(dir_).IgnoreError();
  }
  GeneratorOptions Options(const std::string& name) const {
    GeneratorOptions options;
    options.out = JoinPath(dir_, name);
    options.rows = 3000;
    options.eval_rows = 500;
    options.days = 3;
    options.row_group_rows = 400;
    return options;
  }
  std::string dir_;
};

std::shared_ptr<arrow::Table> ReadTable(const std::string& path) {
  auto file = *arrow::io::ReadableFile::Open(path);
  auto reader = *parquet::arrow::OpenFile(file, arrow::default_memory_pool());
  return *reader->ReadTable();
}

TEST_F(GeneratorTest, WritesOneHiveDirectoryADayWithTheHeldOutDaysAfter) {
  auto report = Generate(Options("a"));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->train.rows, 3000);
  EXPECT_EQ(report->eval.rows, 500);
  EXPECT_EQ(*ListDir(dir_ + "/a"), (std::vector<std::string>{"TRUTH.json", "eval", "train"}));
  EXPECT_EQ(*ListDir(dir_ + "/a/train"),
            (std::vector<std::string>{"ds=20240101", "ds=20240102", "ds=20240103"}));
  EXPECT_EQ(*ListDir(dir_ + "/a/eval"), (std::vector<std::string>{"ds=20240104"}));
  auto table = ReadTable(dir_ + "/a/train/ds=20240102/part-0000.parquet");
  EXPECT_EQ(table->num_rows(), 1000);
  EXPECT_EQ(table->num_columns(), 3 + 13 + 26);
  auto ts = std::static_pointer_cast<arrow::TimestampArray>(table->GetColumnByName("ts")->chunk(0));
  for (int64_t i = 0; i < ts->length(); ++i) {
    EXPECT_EQ(ts->Value(i) / 1000 / 86400, 19724) << i;  // 2024-01-02
    EXPECT_GE(ts->Value(i), ts->Value(std::max<int64_t>(i - 1, 0)));
  }
  auto truth = nlohmann::json::parse(*ReadFile(dir_ + "/a/TRUTH.json"));
  EXPECT_EQ(truth["train"]["clicks"], report->train.clicks);
  EXPECT_EQ(truth["eval"]["best_auc"], report->eval.auc);
}

TEST_F(GeneratorTest, ConversionsFollowSomeClicksAndLeaveTheOtherColumnsAlone) {
  GeneratorOptions options = Options("a"), plain = Options("plain");
  options.conversions = true;
  options.impressions = plain.impressions = 4;
  auto report = Generate(options);
  ASSERT_TRUE(report.ok()) << report.status();
  auto clicks_alone = Generate(plain);
  ASSERT_TRUE(clicks_alone.ok());
  EXPECT_EQ(clicks_alone->train_conversions.rows, 0);
  const char* file = "/train/ds=20240102/part-0000.parquet";
  auto table = ReadTable(options.out + file);
  auto column = [&](const char* name) {
    return std::static_pointer_cast<arrow::Int32Array>(table->GetColumnByName(name)->chunk(0));
  };
  auto click = column("click"), conversion = column("conversion");
  int both = 0;
  for (int64_t i = 0; i < click->length(); ++i) {
    EXPECT_LE(conversion->Value(i), click->Value(i)) << i;
    both += conversion->Value(i);
  }
  EXPECT_GT(both, 0);
  EXPECT_LT(both, click->length() / 4);
  EXPECT_EQ(report->train_conversions.rows, 3000);
  EXPECT_GT(report->train_conversions.auc, report->train.auc - 0.1);
  auto truth = nlohmann::json::parse(report->json);
  EXPECT_EQ(truth["eval"]["conversions"], report->eval_conversions.clicks);
  // Nested rows have it too; and no other column changes.
  EXPECT_EQ(ReadTable(options.out + "/train_nested/ds=20240102/part-0000.parquet")
                ->schema()
                ->field(2)
                ->type()
                ->field(0)
                ->type()
                ->num_fields(),
            ReadTable(plain.out + "/train_nested/ds=20240102/part-0000.parquet")
                    ->schema()
                    ->field(2)
                    ->type()
                    ->field(0)
                    ->type()
                    ->num_fields() +
                1);
  const int at = table->schema()->GetFieldIndex("conversion");
  EXPECT_TRUE((*table->RemoveColumn(at))->Equals(*ReadTable(plain.out + file)));
}

TEST_F(GeneratorTest, SameSeedGivesTheSameBytesWhateverTheThreads) {
  GeneratorOptions one = Options("one"), four = Options("four"), other = Options("other");
  one.threads = 1;
  four.threads = 4;
  other.seed = 2;
  auto a = Generate(one), b = Generate(four), c = Generate(other);
  ASSERT_TRUE(a.ok() && b.ok() && c.ok());
  EXPECT_EQ(a->json, b->json);
  EXPECT_NE(a->json, c->json);
  for (const char* part :
       {"/train/ds=20240103/part-0000.parquet", "/eval/ds=20240104/part-0000.parquet"}) {
    EXPECT_EQ(*ReadFile(one.out + part), *ReadFile(four.out + part));
    EXPECT_NE(*ReadFile(one.out + part), *ReadFile(other.out + part));
  }
}

TEST_F(GeneratorTest, RefusesToReplaceUnlessAskedAndNeverWhatItDidNotWrite) {
  ASSERT_TRUE(Generate(Options("a")).ok());
  GeneratorOptions again = Options("a/");
  EXPECT_EQ(Generate(again).status().code(), absl::StatusCode::kAlreadyExists);
  again.overwrite = true;
  again.rows = 600;
  auto report = Generate(again);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->train.rows, 600);
  EXPECT_EQ(*ListDir(dir_), (std::vector<std::string>{"a"}));  // No ".partial", no ".old".

  ASSERT_TRUE(MakeDirs(dir_ + "/mine").ok());
  ASSERT_TRUE(WriteFileAtomically(dir_ + "/mine/thesis.txt", "x").ok());
  GeneratorOptions mine = Options("mine");
  mine.overwrite = true;
  EXPECT_EQ(Generate(mine).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(PathExists(dir_ + "/mine/thesis.txt"));
}

TEST_F(GeneratorTest, AFullDiskLeavesNothingBehindAndIsReported) {
  for (const char* failing : {"append", "sync", "rename", "mkdir", "create"}) {
    SetFileFault([failing](absl::string_view op, absl::string_view path) -> absl::Status {
      if (op != failing || absl::EndsWith(path, "train")) return absl::OkStatus();
      return absl::ResourceExhaustedError(absl::StrCat(path, ": No space left on device"));
    });
    absl::Status status = Generate(Options("a")).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << failing << ": " << status;
    SetFileFault(nullptr);
    EXPECT_EQ(*ListDir(dir_), std::vector<std::string>{}) << failing;
  }
}

TEST_F(GeneratorTest, BadOptionsAreNamed) {
  GeneratorOptions options = Options("a");
  options.rows = 0;
  EXPECT_EQ(Generate(options).status().message(), "--rows must be at least 1");
  options = Options("a");
  options.days = 0;
  EXPECT_EQ(Generate(options).status().message(), "--days must be in 1..3650");
  options.out = "";
  EXPECT_EQ(Generate(options).status().code(), absl::StatusCode::kInvalidArgument);
}

// Of a made-up log that shows half of a field's ids in a batch, or 30 % of the rows' if
// that is less; exponents as fit_shares.py finds them.
constexpr char kLaws[] =
    "0.17821 1.1182\n"
    "0.07117 1.4558\n"
    "0.30005 1.2268\n"
    "0.30002 1.2196\n"
    "0.03723 1.7323\n"
    "0.00293 3.9491\n"
    "0.30003 1.1182\n"
    "0.07726 1.4239\n"
    "0.00068 8.0\n"
    "0.29995 1.1846\n"
    "0.29999 1.0594\n"
    "0.30001 1.2261\n"
    "0.30000 0.9805\n"
    "0.00330 3.7637\n"
    "0.29996 1.1277\n"
    "0.30003 1.2243\n"
    "0.00122 5.9549\n"
    "0.30002 1.0588\n"
    "0.26527 0.97\n"
    "0.00073 8.0\n"
    "0.30002 1.2254\n"
    "0.00220 4.4696\n"
    "0.00183 4.8596\n"
    "0.30002 1.2019\n"
    "0.01282 2.3469\n"
    "0.29999 1.1921\n";

TEST_F(GeneratorTest, TheCriteoShapeHasTheUniqueSharesOfALogAndNothingNull) {
  GeneratorOptions options = Options("a");
  options.shape = DataShape::kCriteo;
  options.laws = JoinPath(dir_, "laws.txt");
  ASSERT_TRUE(WriteFileAtomically(options.laws, kLaws).ok());
  options.rows = 5 * PlantedModel::kLawBatch;
  options.days = 1;
  options.row_group_rows = PlantedModel::kLawBatch;
  auto report = Generate(options);
  ASSERT_TRUE(report.ok()) << report.status();
  auto table = ReadTable(options.out + "/train/ds=20240101/part-0000.parquet");
  ASSERT_EQ(report->shares.size(), PlantedModel::kIds);
  for (int f = 0; f < PlantedModel::kIds; ++f) {
    const std::string name = absl::StrCat("C", f + 1);
    auto column = *arrow::Concatenate(table->GetColumnByName(name)->chunks());
    EXPECT_EQ(column->null_count(), 0) << name;
    const auto& ids = static_cast<const arrow::Int64Array&>(*column);
    double share = 0;
    for (int64_t b = 0; b < 5; ++b) {
      std::set<int64_t> seen;
      for (int64_t i = 0; i < PlantedModel::kLawBatch; ++i) {
        seen.insert(ids.Value(b * PlantedModel::kLawBatch + i));
        ASSERT_LT(ids.Value(i), PlantedModel::kCardinalities[f]) << name;
      }
      share += seen.size() / 5.0 / PlantedModel::kLawBatch;
    }
    EXPECT_DOUBLE_EQ(report->shares[f].written, share) << name;
    const double wished = report->shares[f].fitted;
    EXPECT_NEAR(wished, std::min(0.3, 0.5 * PlantedModel::kCardinalities[f] / 4096), 0.001) << name;
    EXPECT_NEAR(share, wished, 0.03 * wished + 3.0 / PlantedModel::kLawBatch) << name;
  }
  for (int i = 0; i < PlantedModel::kNumbers; ++i) {
    EXPECT_EQ(table->GetColumnByName(absl::StrCat("I", i + 1))->null_count(), 0) << "I" << i + 1;
  }
  EXPECT_GT(report->train.auc, 0.8);  // There is something to learn.
  EXPECT_LT(report->train.auc, 0.9);
  auto truth = nlohmann::json::parse(report->json);
  EXPECT_EQ(truth["unique_shares"][2]["written"], report->shares[2].written);
}

TEST_F(GeneratorTest, LawsThatAreNoneAreRefusedByLine) {
  GeneratorOptions options = Options("a");
  options.shape = DataShape::kCriteo;
  options.laws = JoinPath(dir_, "bad_laws.txt");
  for (const auto& [text, line] : std::vector<std::pair<std::string, std::string>>{
           {"0.1 1.2\n0.1 one\n", ":2:"},
           {"1.5 1.2\n", ":1:"},
           {"0.1 1\n", ":1:"},
           {"", ":1:"},
           {std::string(kLaws) + "0.1 1.2\n", ":27:"}}) {
    ASSERT_TRUE(WriteFileAtomically(options.laws, text).ok());
    const absl::Status status = Generate(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("bad_laws.txt" + line), std::string::npos) << status;
  }
  EXPECT_FALSE(std::filesystem::exists(options.out));
  options.laws = "";
  EXPECT_TRUE(Generate(options).ok());  // Laws of our own.
}

TEST_F(GeneratorTest, TheIndustrialShapeHasEightySlotsOfOneIdAndTwentyListsOfTwenty) {
  GeneratorOptions options = Options("a");
  options.shape = DataShape::kIndustrial;
  options.days = 1;
  auto report = Generate(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->shares.empty());
  EXPECT_GT(report->train.auc, 0.7);
  auto table = ReadTable(options.out + "/train/ds=20240101/part-0000.parquet");
  EXPECT_EQ(table->num_columns(), 3 + PlantedSlots::kSlots);
  for (int s = 0; s < PlantedSlots::kSingles; ++s) {
    auto column = *arrow::Concatenate(table->GetColumnByName(absl::StrCat("S", s + 1))->chunks());
    const auto& ids = static_cast<const arrow::Int64Array&>(*column);
    for (int64_t i = 0; i < ids.length(); ++i) {
      ASSERT_GE(ids.Value(i), 0) << s;
      ASSERT_LT(ids.Value(i), PlantedSlots::Cardinality(s)) << s;
    }
  }
  int64_t listed = 0;
  for (int s = 0; s < PlantedSlots::kLists; ++s) {
    auto column = *arrow::Concatenate(table->GetColumnByName(absl::StrCat("L", s + 1))->chunks());
    const auto& lists = static_cast<const arrow::ListArray&>(*column);
    for (int64_t i = 0; i < lists.length(); ++i) {
      ASSERT_GE(lists.value_length(i), PlantedSlots::kListMin);
      ASSERT_LE(lists.value_length(i), PlantedSlots::kListMax);
    }
    listed += lists.values()->length();
  }
  EXPECT_NEAR(static_cast<double>(listed) / table->num_rows(), 400, 3);
  options.overwrite = true;
  options.conversions = true;
  EXPECT_EQ(Generate(options).status().message(),
            "--shape industrial has no --impressions, --sequence and --conversions");
}

// Rows of a planted world: enough to see shares, few enough for a sanitizer.
std::vector<PlantedModel::Row> Rows(uint64_t seed, int64_t n) {
  PlantedModel model(seed);
  std::vector<PlantedModel::Row> rows(n);
  for (int64_t i = 0; i < n; ++i) model.Fill(i, &rows[i]);
  return rows;
}

TEST(PlantedModelTest, NullsComeInTheStatedShares) {
  auto rows = Rows(1, 20000);
  for (int f = 0; f < PlantedModel::kIds; ++f) {
    double nulls = 0;
    for (const auto& row : rows) nulls += row.ids[f] < 0;
    EXPECT_NEAR(nulls / rows.size(), PlantedModel::kIdMissing[f], 0.015) << "C" << f + 1;
  }
  for (int i = 0; i < PlantedModel::kNumbers; ++i) {
    double nulls = 0;
    for (const auto& row : rows) nulls += row.number_null[i];
    EXPECT_NEAR(nulls / rows.size(), PlantedModel::kNumberMissing[i], 0.015) << "I" << i + 1;
  }
}

TEST(PlantedModelTest, IdsStayInTheirFieldAndFollowZipf) {
  auto rows = Rows(3, 20000);
  for (int f = 0; f < PlantedModel::kIds; ++f) {
    std::map<int64_t, int> counts;
    for (const auto& row : rows) {
      ASSERT_LT(row.ids[f], PlantedModel::kCardinalities[f]);
      if (row.ids[f] >= 0) ++counts[row.ids[f]];
    }
    if (PlantedModel::kCardinalities[f] <= 30) {
      EXPECT_EQ(static_cast<int64_t>(counts.size()), PlantedModel::kCardinalities[f]) << f;
    }
    int most = 0;
    for (const auto& [id, count] : counts) most = std::max(most, count);
    double seen = 0;
    for (const auto& [id, count] : counts) seen += count;
    EXPECT_GT(most, seen / 25) << "C" << f + 1;  // One id stands out; a flat law has none.
    if (PlantedModel::kCardinalities[f] > 1'000'000) {
      EXPECT_GT(counts.size(), 3000u) << "C" << f + 1;  // And the tail is long.
    }
  }
}

TEST(PlantedModelTest, TheTruthIsCalibratedAndWithinTheWishedBounds) {
  for (uint64_t seed : {1, 2, 3}) {
    auto rows = Rows(seed, 30000);
    double clicks = 0, sum = 0;
    std::vector<std::pair<double, bool>> order;
    for (const auto& row : rows) {
      clicks += row.click;
      sum += row.probability;
      order.push_back({row.probability, row.click});
    }
    EXPECT_NEAR(clicks / rows.size(), sum / rows.size(), 0.01);
    EXPECT_GT(clicks / rows.size(), 0.20);
    EXPECT_LT(clicks / rows.size(), 0.25);
    std::sort(order.begin(), order.end());
    double below = 0, wins = 0;
    for (const auto& [p, click] : order) {
      if (click) wins += below;
      below += !click;
    }
    double auc = wins / (clicks * below);
    EXPECT_GT(auc, 0.80) << seed;
    EXPECT_LT(auc, 0.86) << seed;
  }
}

TEST_F(GeneratorTest, TheReportedTruthIsThatOfTheWrittenRows) {
  GeneratorOptions options = Options("a");
  options.rows = 5000;
  auto report = Generate(options);
  ASSERT_TRUE(report.ok());
  PlantedModel model(options.seed);
  double logloss = 0, wins = 0, clicks = 0, below = 0;
  std::vector<std::pair<double, bool>> order;
  for (int64_t i = 0; i < options.rows; ++i) {
    PlantedModel::Row row;
    model.Fill(i, &row);
    logloss -= std::log(row.click ? row.probability : 1 - row.probability);
    order.push_back({row.probability, row.click});
  }
  std::sort(order.begin(), order.end());
  for (const auto& [p, click] : order) {
    if (click) wins += below;
    clicks += click;
    below += !click;
  }
  EXPECT_EQ(report->train.clicks, clicks);
  EXPECT_NEAR(report->train.auc, wins / (clicks * below), 1e-4);
  EXPECT_NEAR(report->train.logloss, logloss / options.rows, 1e-9);
}

}  // namespace
}  // namespace starling
