// Feature blocks of every kind: what they resolve to, and what is refused where.
#include "scheduler/plan_features.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "scheduler/plan.h"

namespace starling {
namespace {

using testing::ElementsAre;

absl::StatusOr<Plan> PlanOf(const std::string& features, SourceMap* map) {
  Job job;
  absl::Status status = ParseYaml(absl::StrCat("data: {label: y, event_time: ts}\nfeatures: [",
                                               features, "]\nmodel: {dnn: {hidden: 8}}\n"),
                                  "job.yaml", {}, &job, map);
  if (!status.ok()) return status;
  return MakePlan(job, *map);
}
Plan GoodPlan(const std::string& features) {
  SourceMap map;
  auto plan = PlanOf(features, &map);
  EXPECT_TRUE(plan.ok()) << features << ": " << plan.status();
  return plan.ok() ? *plan : Plan();
}
// Less "job.yaml:2:": all is on the second line.
std::string ErrorOf(const std::string& features) {
  SourceMap map;
  std::string message(PlanOf(features, &map).status().message());
  EXPECT_EQ(message.substr(0, 11), "job.yaml:2:") << features;
  return message.substr(std::min<size_t>(11, message.size()));
}

void ExpectIds(const std::string& features, const std::string& text) {
  IdFeature due;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &due)) << text;
  Plan plan = GoodPlan(features);
  ASSERT_EQ(plan.features.ids_size(), 1) << features;
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equivalent(plan.features.ids(0), due))
      << plan.features.ids(0).ShortDebugString();
  EXPECT_EQ(plan.graph.slots(0).name(), due.name());
}
void ExpectRaw(const std::string& features, const std::string& text) {
  RawFeature due;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &due)) << text;
  Plan plan = GoodPlan(features);
  ASSERT_EQ(plan.features.raws_size(), 1) << features;
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equivalent(plan.features.raws(0), due))
      << plan.features.raws(0).ShortDebugString();
}

TEST(PlanFeaturesTest, IdOptionsBecomeOneStep) {
  const std::string all = "name: 'a' vocabulary: 'a' table: 0 pooling: SUM ";
  ExpectIds("{id: a}", all);
  ExpectIds("{id: a, salt: v2}", all + "salt: 'v2'");
  ExpectIds("{id: a, separator: '|', weighted: true}",
            all + "steps { columns: 'a' values { separator: '|' weighted: true } }");
  ExpectIds("{id: a, weights: w, max_length: 5, default: none}",
            all +
                "steps { columns: 'a' columns: 'w' values { weights: true max_length: 5 default: "
                "'none' } }");
  ExpectIds("{id: a, default_int: 0}", all + "steps { columns: 'a' values { default_int: 0 } }");
}

TEST(PlanFeaturesTest, RawOptionsAndVectors) {
  ExpectRaw("{raw: a, minmax: {min: 0, max: 9}, clip: {min: 0, max: 5}, missing: 1}",
            "name: 'a' norm: NONE missing: 1 clip { min: 0 max: 5 } minmax { min: 0 max: 9 }");
  ExpectRaw("{raw: a, zscore: {mean: 1, stddev: 2}}",
            "name: 'a' norm: NONE missing: 0 zscore { mean: 1 stddev: 2 }");
  Plan plan = GoodPlan("{raw: p}, {raw: v, width: 3}, {raw: q}");
  EXPECT_EQ(plan.features.raws(1).width(), 3);
  EXPECT_THAT(plan.graph.raws(), ElementsAre("p", "v[0]", "v[1]", "v[2]", "q"));
}

TEST(PlanFeaturesTest, DerivedKindsBecomeSteps) {
  ExpectIds("{bucketize: a, boundaries: [1, 2.5]}",
            "name: 'a' vocabulary: 'a' table: 0 pooling: SUM "
            "steps { columns: 'a' bucketize { boundaries: [1, 2.5] } }");
  ExpectIds("{combo: [a, b], max_length: 7, default_int: -1}",
            "name: 'a_x_b' vocabulary: 'a_x_b' table: 0 pooling: SUM "
            "steps { columns: 'a' columns: 'b' combo { max_length: 7 } } "
            "steps { values { default_int: -1 } }");
  ExpectRaw("{lookup: {map: m, key: k, combine: mean}, name: n, norm: log1p}",
            "name: 'n' norm: LOG1P missing: 0 steps { columns: 'm' columns: 'k' "
            "lookup { as_id: false combine: MEAN separator: ',' } }");
  ExpectIds("{lookup: {map: m, key: k}, name: n, boundaries: 3}",
            "name: 'n' vocabulary: 'n' table: 0 pooling: SUM steps { columns: 'm' columns: 'k' "
            "lookup { as_id: false combine: SUM separator: ',' } } "
            "steps { bucketize { boundaries: 3 } }");
  ExpectIds("{match: {nested_map: m, pkey: p, skey: s}, name: n, as: id, max_length: 2}",
            "name: 'n' vocabulary: 'n' table: 0 pooling: SUM steps { columns: 'm' columns: 'p' "
            "columns: 's' match { as_id: true combine: SUM } } steps { values { max_length: 2 } }");
  ExpectRaw("{expr: 'log1p(b) / (1 + a)', name: n}",
            "name: 'n' norm: NONE missing: 0 "
            "steps { columns: 'b' columns: 'a' expr { text: 'log1p(b) / (1 + a)' } }");
}

TEST(PlanFeaturesTest, ASequencesListsKnowEachOther) {
  Plan plan = GoodPlan(
      "{sequence: {ids: [i, c], vocabularies: [item, cate], time: t, within: 1h, keep: head}, "
      "max_length: 9, pooling: mean}");
  ASSERT_EQ(plan.features.ids_size(), 2);
  EXPECT_EQ(plan.features.ids(1).vocabulary(), "cate");
  DeriveStep due;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "columns: ['c', 'i', 't', 'ts'] "
      "sequence { max_length: 9 keep: HEAD timed: true within: 3600 }",
      &due));
  EXPECT_TRUE(
      google::protobuf::util::MessageDifferencer::Equals(plan.features.ids(1).steps(0), due))
      << plan.features.ids(1).ShortDebugString();
}

TEST(PlanFeaturesTest, ASequenceWithoutPoolingKeepsItsPositions) {
  Job job;
  SourceMap map;
  ASSERT_TRUE(
      ParseYaml("data: {label: y}\nfeatures: [{id: [a, b], dim: 4}, {sequence: {ids: [i, j]}, "
                "max_length: 3, dim: 4}, {sequence: {ids: k}, max_length: 5, dim: 4}]\n"
                "model: {din: {attention: [{sequence: [i, j], target: [a, b]}, {sequence: k, "
                "target: a}]}}\n",
                "job.yaml", {}, &job, &map)
          .ok());
  auto plan = MakePlan(job, map);
  ASSERT_TRUE(plan.ok()) << plan.status();
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(plan->features.ids(i).has_sequence(), i >= 2);
    EXPECT_EQ(plan->features.ids(i).sequence(), i == 4 ? 1 : 0);
    EXPECT_EQ(plan->graph.slots(i).has_sequence(), i >= 2);
    EXPECT_EQ(plan->graph.slots(i).sequence(), plan->features.ids(i).sequence());
  }
  // A checkpoint of the pooled form does not fit.
  FeatureSet pooled = plan->features;
  pooled.mutable_ids(2)->clear_sequence();
  EXPECT_NE(FeatureHash(pooled), FeatureHash(plan->features));
}

TEST(PlanFeaturesTest, ASequenceMayHoldNumbers) {
  Plan plan = GoodPlan("{sequence: {ids: i, raws: x}, pooling: mean, dim: 4, norm: log1p}");
  RawFeature due;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "name: 'x' norm: LOG1P missing: 0 steps { columns: ['x', 'i'] sequence { keep: TAIL } } "
      "steps { pool { pooling: MEAN } }",
      &due));
  EXPECT_EQ(plan.features.ids(0).steps(0).columns(1), "x");
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(plan.features.raws(0), due))
      << plan.features.raws(0).ShortDebugString();
  EXPECT_EQ(GoodPlan("{sequence: {raws: x}, pooling: sum, max_length: 3}").features.raws_size(), 1);
  EXPECT_EQ(ErrorOf("{sequence: {raws: x}, pooling: sum, dim: 4}"),
            "53: dim belongs to id features, but this block makes numbers");
  EXPECT_EQ(ErrorOf("{sequence: {}, pooling: sum}"),
            "13: a sequence lists columns under ids or raws: this has none");
}

// One column with two embeddings: the second feature has a name of its own, and ids of its own.
TEST(PlanFeaturesTest, AColumnOfIdsMayBeReadAgainUnderAName) {
  Plan plan = GoodPlan("{id: a, dim: 4}, {id: a, name: again, dim: 4}");
  ASSERT_EQ(plan.features.ids_size(), 2);
  EXPECT_TRUE(plan.features.ids(0).steps().empty());
  const IdFeature& again = plan.features.ids(1);
  EXPECT_EQ(again.name(), "again");
  EXPECT_EQ(again.vocabulary(), "again");
  ASSERT_EQ(again.steps_size(), 1);
  EXPECT_EQ(again.steps(0).columns(0), "a");
  EXPECT_EQ(ErrorOf("{id: [a, b], name: n}"),
            "31: name is that of one feature: write a block for each");
}

TEST(PlanFeaturesTest, EveryErrorNamesItsPlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"{id: a, combo: [b, c]}",
       "20: combo beside id: a feature block has one kind; write two blocks"},
      {"{combo: [b, c], separator: x}",
       "39: separator belongs to id features, but this block lists combo features"},
      {"{raw: a, boundaries: [1]}",
       "21: boundaries belongs to bucketize, lookup, match, expr features, but this block lists "
       "raw features"},
      {"{expr: a, name: n, dim: 4}",
       "36: dim belongs to id features, but this block makes numbers"},
      {"{combo: [a, b], norm: log1p}",
       "34: norm belongs to raw features, but this block makes ids"},
      {"{id: a, max_length: 0}", "32: max_length must be in 1..1048576"},
      {"{id: a, separator: ''}", "31: separator is empty"},
      {"{id: a, weighted: true, weights: w}",
       "45: weights beside weighted: the ids' weights stand in one place"},
      {"{id: [a, b], weights: w}", "34: weights are those of one column: write a block for each"},
      {"{id: a, default: x, default_int: 1}",
       "45: default_int beside default: the ids are either text or integers"},
      {"{combo: [a, b], default: x}",
       "37: default is text, but these ids are integers: use default_int"},
      {"{lookup: {map: m, key: k}, name: n, as: id, default_int: 1}",
       "69: default_int is an integer, but these ids are text: use default"},
      {"{lookup: {map: m, key: k}, name: n, as: id, boundaries: [1]}",
       "52: as: id beside boundaries, which take the value as a number"},
      {"{bucketize: a}", "12: bucketize needs boundaries, as in {boundaries: [1, 10, 100]}"},
      {"{bucketize: a, boundaries: [1, 1]}", "43: boundaries must ascend"},
      {"{bucketize: [a, b], boundaries: [1], name: n}",
       "55: name is that of one feature: write a block for each"},
      {"{raw: a, minmax: {min: 1, max: 1}}", "21: min must be less than max"},
      {"{raw: a, clip: {min: 2, max: 1}}", "21: min must not be more than max"},
      {"{raw: a, zscore: {mean: 0, stddev: 0}}", "47: stddev must be more than 0"},
      {"{raw: a, norm: log1p, zscore: {mean: 0, stddev: 1}}",
       "34: a number has one norm: norm, minmax or zscore"},
      {"{raw: a, width: 0}", "28: width must be in 1..4096"},
      {"{combo: [a]}", "13: combo crosses 2..4 columns"},
      {"{combo: [a, y]}", "24: column \"y\" is the label: it cannot be a feature too"},
      {"{expr: a + y, name: n}", "19: column \"y\" is the label: it cannot be a feature too"},
      {"{expr: a + (b, name: n}", "19: character 7: the `(` of character 5 is not closed"},
      {"{expr: a + b}", "19: expr needs a name for its feature: give name"},
      {"{raw: a}, {expr: a, name: a}", "38: feature \"a\" is a feature already, at job.yaml:2:18"},
      {"{sequence: {ids: a}}",
       "13: the model reads each event of a sequence without pooling: give max_length, the most "
       "events of a row, or pooling, as in {pooling: mean}"},
      {"{sequence: {ids: a, raws: x}, max_length: 4}",
       "32: numbers of a sequence are pooled: give pooling, as in {pooling: mean}, or write them "
       "to "
       "a block of their own"},
      {"{sequence: {ids: a}, max_length: 4}",
       "13: model dnn reads sequences pooled only: give pooling, as in {pooling: mean}, or take "
       "din "
       "or dien"},
      {"{sequence: {ids: a, within: 1d}, pooling: sum}",
       "40: within needs the events' times: give time"},
      {"{sequence: {ids: [a, b], vocabularies: v}, pooling: sum}",
       "37: vocabularies are one for each of ids, and then there is no vocabulary"},
      {"{lookup: {map: m}, name: n}",
       "13: features[0].lookup: missing key \"key\" (Column with the key, or a list of keys)"},
  };
  for (const auto& [yaml, message] : cases) EXPECT_EQ(ErrorOf(yaml), message) << yaml;
}

class FakeSource : public SampleSource {
 public:
  explicit FakeSource(std::vector<ColumnSchema> schema) : schema_(std::move(schema)) {}
  const std::vector<Split>& splits() const override { return splits_; }
  const std::vector<ColumnSchema>& schema() const override { return schema_; }
  const std::vector<SchemaNote>& notes() const override { return notes_; }
  int64_t rows() const override { return 0; }
  SourceCounts counts() const override { return {}; }
  uint64_t fingerprint() const override { return 0; }
  int64_t read_memory() const override { return 0; }
  absl::StatusOr<ColumnBatch> Read(int, const std::vector<std::string>&) const override {
    return ColumnBatch();
  }

 private:
  std::vector<Split> splits_;
  std::vector<ColumnSchema> schema_;
  std::vector<SchemaNote> notes_;
};

TEST(PlanFeaturesTest, EachUseOfAColumnHasTypesThatFit) {
  const struct {
    const char* features;
    std::vector<std::string> good, bad;
  } cases[] = {
      {"{id: c, separator: x}", {"string", "list<item: string>", "null"}, {"int64", "double"}},
      {"{id: c, weighted: true}",
       {"string", "map<int64, float>", "map<string, double ('w')>"},
       {"int64", "map<int64, string>", "map<string, map<string, int64>>"}},
      {"{id: c}", {"int64"}, {"map<int64, float>"}},
      {"{raw: c, width: 2}",
       {"list<item: float>", "fixed_size_list<item: float>[2]"},
       {"float", "list<item: string>"}},
      {"{bucketize: c, boundaries: 1}", {"double", "list<item: int64>"}, {"string"}},
      {"{expr: c, name: n}", {"double", "int32"}, {"list<item: double>", "string"}},
      {"{lookup: {map: c, key: k}, name: n}",
       {"string", "map<string, int64>"},
       {"int64", "map<string, map<string, int64>>", "map<string, list<item: int64>>"}},
      {"{match: {nested_map: c, pkey: k, skey: k}, name: n}",
       {"string", "map<string, map<string, int64>>"},
       {"map<string, int64>"}},
      {"{sequence: {ids: c}, pooling: sum}",
       {"list<item: int64>"},
       {"int64", "list<item: double>"}},
      {"{sequence: {ids: k2, time: c}, pooling: sum}",
       {"list<item: int64>", "list<item: timestamp[us]>"},
       {"int64", "list<item: string>"}},
  };
  for (const auto& test : cases) {
    SourceMap map;
    auto plan = PlanOf(test.features, &map);
    ASSERT_TRUE(plan.ok()) << plan.status();
    auto check = [&](const std::string& type) {
      return CheckSchema(*plan, map,
                         FakeSource({{"y", "int64"},
                                     {"ts", "int64"},
                                     {"k", "int64"},
                                     {"k2", "list<item: int64>"},
                                     {"c", type}}));
    };
    for (const auto& type : test.good) EXPECT_TRUE(check(type).ok()) << check(type);
    for (const auto& type : test.bad) {
      EXPECT_THAT(std::string(check(type).message()), testing::HasSubstr("the data has " + type))
          << test.features;
    }
  }
}

TEST(PlanFeaturesTest, FeatureHashFollowsEveryOption) {
  std::vector<std::string> blocks = {
      "{id: a}",
      "{id: a, salt: v}",
      "{id: a, salt: w}",
      "{id: a, separator: x}",
      "{id: a, separator: y}",
      "{id: a, max_length: 3}",
      "{bucketize: a, boundaries: [1, 2]}",
      "{bucketize: a, boundaries: [1, 3]}",
      "{combo: [a, b], name: a}",
      "{combo: [b, a], name: a}",
      "{raw: a}",
      "{raw: a, clip: {min: 0, max: 1}}",
      "{raw: a, width: 2}",
      "{expr: b + 1, name: a}",
      "{expr: b + 2, name: a}",
  };
  std::set<uint64_t> hashes;
  for (const std::string& block : blocks) hashes.insert(FeatureHash(GoodPlan(block).features));
  EXPECT_EQ(hashes.size(), blocks.size());
}

}  // namespace
}  // namespace starling
