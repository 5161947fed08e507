// Rows that share a user: the nested form, the flat form with a key and the
// plain flat form must train alike, and the first two do the user's work once.
#include "sample_io/requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "sample_io/batch_reader.h"
#include "sample_io/generator.h"
#include "sample_io/parquet_test_util.h"

namespace starling {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Column Ints(const std::string& name, std::vector<int64_t> values, std::vector<uint8_t> valid = {}) {
  Column column;
  column.name = name;
  column.rows = static_cast<int64_t>(values.size());
  column.ints = std::move(values);
  column.valid = std::move(valid);
  return column;
}

FeatureSet KeyedBy(const std::string& key, const std::vector<std::string>& user) {
  FeatureSet features;
  features.set_request(key);
  for (const std::string& name : user) features.add_user(name);
  return features;
}

TEST(RequestsTest, ConsecutiveRowsOfAKeyAreARequest) {
  ColumnBatch batch;
  batch.rows = 6;
  batch.columns = {Ints("r", {7, 7, 8, 0, 0, 7}, {1, 1, 1, 0, 0, 1}), Ints("u", {1, 1, 2, 3, 3, 1}),
                   Ints("i", {10, 11, 12, 13, 14, 15})};
  ASSERT_TRUE(FormRequests(KeyedBy("r", {"u"}), &batch).ok());
  // A null key is a request of its own, and one that comes back is another.
  EXPECT_EQ(batch.requests, 5);
  EXPECT_THAT(batch.request_of_row, ElementsAre(0, 0, 1, 2, 3, 4));
  EXPECT_THAT(batch.columns[1].ints, ElementsAre(1, 2, 3, 3, 1));
  EXPECT_TRUE(batch.columns[1].by_request);
  EXPECT_FALSE(batch.columns[2].by_request);
  FlattenRequests(&batch);
  EXPECT_THAT(batch.columns[1].ints, ElementsAre(1, 1, 2, 3, 3, 1));
  EXPECT_TRUE(batch.flat());
}

TEST(RequestsTest, ColumnThatDiffersWithinARequestIsRefused) {
  ColumnBatch batch;
  batch.rows = 3;
  batch.columns = {Ints("r", {7, 7, 7}), Ints("u", {1, 1, 2})};
  absl::Status status = FormRequests(KeyedBy("r", {"u"}), &batch);
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("column u, row 2: the value is 2, but 1 in row 0 of the same r"));
}

TEST(RequestsTest, RequestsAreReorderedWithAllTheirRows) {
  ColumnBatch batch;
  batch.rows = 4;
  batch.columns = {Ints("r", {7, 7, 8, 9}), Ints("u", {1, 1, 2, 3}), Ints("i", {10, 11, 12, 13})};
  ASSERT_TRUE(FormRequests(KeyedBy("r", {"u"}), &batch).ok());
  Reorder({2, 0, 1}, &batch);
  EXPECT_THAT(batch.columns[1].ints, ElementsAre(3, 1, 2));
  EXPECT_THAT(batch.columns[2].ints, ElementsAre(13, 10, 11, 12));
  EXPECT_THAT(batch.request_of_row, ElementsAre(0, 1, 1, 2));
  EXPECT_THAT(RequestStarts(batch), ElementsAre(0, 1, 3, 4));
}

TEST(RequestsTest, MembersOfTwoListsAreRefused) {
  ColumnBatch batch;
  batch.rows = 1;
  batch.columns = {Ints("a.x", {1, 2}), Ints("b.y", {1, 2})};
  batch.columns[0].outer_offsets = batch.columns[1].outer_offsets = {0, 2};
  absl::Status status = FormRequests({}, &batch);
  EXPECT_THAT(std::string(status.message()), HasSubstr("columns a.* and b.y are members of"));
}

// ---- The same data in three forms ----

enum Form { kFlat, kKeyed, kNested };

FeatureSet FeaturesOf(Form form) {
  FeatureSet set;
  auto name = [&](const std::string& column, bool user) {
    return form != kNested ? column : absl::StrCat(user ? "user." : "impressions.", column);
  };
  for (int i = 1; i <= 26; ++i) {
    IdFeature* id = set.add_ids();
    const std::string column = absl::StrCat("C", i);
    id->set_name(name(column, i <= 23));
    id->set_vocabulary(column);
    id->set_table(i % 3);
    if (form == kKeyed && i <= 23) set.add_user(column);
  }
  if (form == kKeyed) set.add_user("user");
  for (int i = 1; i <= 13; ++i) set.add_raws()->set_name(name(absl::StrCat("I", i), i <= 12));
  set.set_tables(3);
  set.set_label(name("click", false));
  set.set_event_time(name("ts", false));
  set.set_group(form == kNested ? "user.id" : "user");
  if (form == kKeyed) set.set_request("request");
  return set;
}

// What a row teaches, whatever the form: label, time, numbers, ids by slot.
using RowText = std::string;
struct Pass {
  std::vector<RowText> rows;  // In the order of delivery.
  // By table and id: rows that hold it, and the latest time.
  std::map<std::pair<size_t, uint64_t>, std::pair<uint64_t, int64_t>> ids;
  uint64_t index_entries = 0, rows_seen = 0, requests_seen = 0;
};

void AddRows(const Batch& batch, Pass* pass) {
  const size_t numbers = batch.dense.size() / batch.rows;
  for (uint32_t r = 0; r < batch.rows; ++r) {
    RowText text = absl::StrCat(batch.labels[r], " ", batch.event_times[r]);
    for (size_t i = 0; i < numbers; ++i) {
      absl::StrAppend(&text, " ", batch.dense[r * numbers + i]);
    }
    for (const TableIds& table : batch.tables) {
      for (const Slot& slot : table.slots) {
        const bool shared = slot.axis == Axis::kRequest;
        const uint32_t entry = shared ? batch.request_of_row[r] : r;
        for (uint32_t k = slot.offsets[entry]; k < slot.offsets[entry + 1]; ++k) {
          absl::StrAppend(&text, " ", table.ids[slot.index[k]]);
        }
        absl::StrAppend(&text, ";");
      }
    }
    pass->rows.push_back(text);
  }
  for (size_t t = 0; t < batch.tables.size(); ++t) {
    for (size_t u = 0; u < batch.tables[t].ids.size(); ++u) {
      auto& [count, time] = pass->ids[{t, batch.tables[t].ids[u]}];
      count += batch.tables[t].counts[u];
      time = std::max(time, batch.tables[t].event_times[u]);
    }
    for (const Slot& slot : batch.tables[t].slots) pass->index_entries += slot.index.size();
  }
  pass->rows_seen += batch.rows;
  pass->requests_seen += batch.requests;
}

class RequestFormsTest : public testing::Test {
 protected:
  static constexpr int kImpressions = 7;

  void SetUp() override {
    dir_ = FreshDir() + "/data";
    GeneratorOptions options;
    options.out = dir_;
    options.rows = 5000;
    options.eval_rows = 0;
    options.days = 2;
    options.row_group_rows = 700;
    options.impressions = kImpressions;
    ASSERT_TRUE(Generate(options).ok());
  }

  Pass Read(Form form, int batch_rows, bool shuffle) {
    Pass pass;
    auto source =
        SampleSource::Open({absl::StrCat(dir_, form == kNested ? "/train_nested" : "/train")});
    EXPECT_TRUE(source.ok()) << source.status();
    auto compiler = FeatureCompiler::Create(FeaturesOf(form));
    BatchReaderOptions options;
    options.batch_rows = batch_rows;
    options.shuffle = shuffle;
    options.threads = 2;
    auto reader = BatchReader::Create(source->get(), compiler->get(), options, {});
    EXPECT_TRUE(reader.ok()) << reader.status();
    Batch batch;
    absl::Status status;
    while ((status = (*reader)->Next(&batch)).ok()) AddRows(batch, &pass);
    EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
    return pass;
  }

  std::string dir_;
};

TEST_F(RequestFormsTest, AllFormsHoldTheSameRows) {
  const Pass flat = Read(kFlat, 100, /*shuffle=*/false);
  ASSERT_EQ(flat.rows.size(), 5000);
  const Pass keyed = Read(kKeyed, 100, false), nested = Read(kNested, 100, false);
  EXPECT_EQ(keyed.rows, flat.rows);
  EXPECT_EQ(nested.rows, flat.rows);
  // Admission and ageing see the same, too.
  EXPECT_EQ(keyed.ids, flat.ids);
  EXPECT_EQ(nested.ids, flat.ids);
}

TEST_F(RequestFormsTest, UsersAreHashedOnceARequest) {
  const Pass flat = Read(kFlat, 100, false);
  for (Form form : {kKeyed, kNested}) {
    const Pass shared = Read(form, 100, false);
    EXPECT_EQ(shared.rows_seen, 5000);
    EXPECT_EQ(shared.requests_seen, 2 * ((2500 + kImpressions - 1) / kImpressions));
    // 23 of 26 id columns shrink by the impressions of a request.
    const double expected = (23.0 / kImpressions + 3) / 26;
    EXPECT_NEAR(static_cast<double>(shared.index_entries) / flat.index_entries, expected, 0.05);
  }
}

TEST_F(RequestFormsTest, ShuffledRequestsStayWholeAndNoneIsLost) {
  Pass flat = Read(kFlat, 64, false);
  std::sort(flat.rows.begin(), flat.rows.end());
  for (Form form : {kKeyed, kNested}) {
    Pass shared = Read(form, 64, /*shuffle=*/true);
    EXPECT_EQ(shared.requests_seen, 2 * ((2500 + kImpressions - 1) / kImpressions)) << form;
    std::sort(shared.rows.begin(), shared.rows.end());
    EXPECT_EQ(shared.rows, flat.rows) << form;
    EXPECT_EQ(shared.ids, flat.ids) << form;
  }
}

TEST_F(RequestFormsTest, RequestLongerThanABatchStaysWhole) {
  const Pass keyed = Read(kKeyed, 3, false);
  EXPECT_EQ(keyed.rows_seen, 5000);
  EXPECT_EQ(keyed.requests_seen, 2 * ((2500 + kImpressions - 1) / kImpressions));
}

}  // namespace
}  // namespace starling
