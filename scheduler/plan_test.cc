#include "scheduler/plan.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/test_root.h"
#include "dense_net/forward.h"
#include "scheduler/worker.h"

namespace starling {
namespace {

// The example of the design, as a user would first write it.
constexpr char kJob[] = R"(
data: {train: "logs/ds=*/", eval: "logs_eval/", label: click, event_time: ts, batch: 4096}
features:
  - {id: [C1..C26], dim: 16, table: {memory: 4GiB, admit: {count: 3}, evict: {ttl: 30d}}}
  - {raw: [I1..I13], norm: log1p}
model: {deepfm: {hidden: [400, 400, 400]}}
optimizer: {sparse: {adagrad: {lr: 0.01}}, dense: {adam: {lr: 0.001}}}
train: {epochs: 1, seed: 7, checkpoint: {dir: run/ckpt, every: 10min, keep: 3}}
)";

struct Planned {
  absl::StatusOr<Plan> plan;
  SourceMap map;
};
Planned MakeFrom(const std::string& yaml, const std::vector<std::string>& set = {}) {
  Planned out{absl::UnknownError("not planned"), {}};
  Job job;
  if (absl::Status s = ParseYaml(yaml, "job.yaml", set, &job, &out.map); !s.ok()) {
    out.plan = s;
  } else {
    out.plan = MakePlan(job, out.map);
  }
  return out;
}
std::string ErrorOf(const std::string& yaml, const std::vector<std::string>& set = {}) {
  Planned p = MakeFrom(yaml, set);
  EXPECT_TRUE(p.plan.ok() || p.plan.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(p.plan.status().message());
}

template <typename T>
testing::AssertionResult Is(const google::protobuf::Message& message, const std::string& text) {
  T due;
  if (!google::protobuf::TextFormat::ParseFromString(text, &due)) {
    return testing::AssertionFailure() << "bad text: " << text;
  }
  if (google::protobuf::util::MessageDifferencer::Equivalent(message, due)) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << message.ShortDebugString();
}

TEST(PlanTest, TheDesignsExampleIsResolvedWhole) {
  Planned p = MakeFrom(kJob);
  ASSERT_TRUE(p.plan.ok()) << p.plan.status();
  const Plan& plan = *p.plan;
  EXPECT_EQ(plan.job.data().quarantine(), "run/quarantine");
  EXPECT_EQ(plan.features.ids_size(), 26);
  EXPECT_EQ(plan.features.raws_size(), 13);
  EXPECT_EQ(plan.features.tables(), 1);
  EXPECT_TRUE(
      Is<IdFeature>(plan.features.ids(25), "name: 'C26' vocabulary: 'C26' table: 0 pooling: SUM"));
  EXPECT_TRUE(Is<RawFeature>(plan.features.raws(0), "name: 'I1' norm: LOG1P missing: 0"));
  EXPECT_TRUE(Is<TableSet>(plan.tables, R"(
      tables {
        options { name: 'dim16' memory: 4294967296 admit { count: 3 } evict { ttl: 2592000 } }
        segments { name: 'linear' dim: 1 init: 0 optimizer { adagrad { lr: 0.01 } } }
        segments { name: 'embedding' dim: 16 init: 0.01 optimizer { adagrad { lr: 0.01 } } }
        seed: 7
      })"));
  EXPECT_EQ(plan.graph.seed(), 7);
  EXPECT_THAT(plan.graph.table_width(), testing::ElementsAre(17));
  EXPECT_EQ(plan.graph.raws(12), "I13");
  EXPECT_TRUE(Is<SlotSpec>(plan.graph.slots(3),
                           "name: 'C4' table: 0 slot: 3 linear_offset: 0 embedding_offset: 1 "
                           "embedding_dim: 16"));
}

TEST(PlanTest, BlocksShareTablesByNameAndSlotsCountWithinTheTable) {
  Planned p = MakeFrom(R"(
data: {label: y}
features:
  - {id: [a, b], dim: 8, table: {name: items, memory: 1MiB}}
  - {id: c, dim: 4, pooling: mean}
  - {id: d, dim: 8, table: {name: items}, vocabulary: a}
model: {dcnv2: {}}
)");
  ASSERT_TRUE(p.plan.ok()) << p.plan.status();
  ASSERT_EQ(p.plan->tables.tables_size(), 2);
  EXPECT_EQ(p.plan->tables.tables(0).options().memory(), 1 << 20);
  EXPECT_EQ(p.plan->tables.tables(1).options().name(), "dim4");
  EXPECT_EQ(p.plan->features.ids(3).vocabulary(), "a");
  EXPECT_EQ(p.plan->graph.slots(3).table(), 0);
  EXPECT_EQ(p.plan->graph.slots(3).slot(), 2);
  EXPECT_EQ(p.plan->graph.slots(2).slot(), 0);
  EXPECT_EQ(p.plan->features.ids(2).pooling(), IdFeature::MEAN);
  EXPECT_EQ(p.plan->job.train().checkpoint().dir(), "run/ckpt");
  EXPECT_TRUE(p.plan->job.optimizer().dense().has_adam());
}

// As docs/architecture.md shows it.
TEST(PlanTest, TablesMayBeNarrowAndShareRows) {
  const std::string yaml = R"(
data: {label: y}
features:
  - {id: user, dim: 16, table: {name: users, dtype: int8}}
  - {id: query, dim: 16, table: {name: queries, multi_hash: {rows: 1000000, combine: multiply}}}
model: {deepfm: {hidden: [64]}}
)";
  Planned p = MakeFrom(yaml);
  ASSERT_TRUE(p.plan.ok()) << p.plan.status();
  EXPECT_TRUE(Is<TableOptions>(p.plan->tables.tables(0).options(), "name: 'users' dtype: INT8"));
  EXPECT_TRUE(Is<TableOptions>(p.plan->tables.tables(1).options(),
                               "name: 'queries' multi_hash { rows: 1000000 combine: MULTIPLY }"));
  EXPECT_EQ(CheckDistributable(*p.plan).message(),
            "table queries: multi_hash needs one process, since servers own ids and not the rows "
            "that ids share: use `starling train`, or remove it");
  EXPECT_TRUE(CheckDistributable(*MakeFrom(kJob).plan).ok());
  const std::string hashed = "features[1].table.multi_hash=";
  EXPECT_EQ(ErrorOf(yaml, {hashed + "{rows: 1}"}),
            "--set " + hashed + "{rows: 1}: rows must be in 2..268435456");
  EXPECT_NE(ErrorOf(yaml, {hashed + "{combine: add}"}).find("rows"), std::string::npos);
  EXPECT_NE(ErrorOf(yaml, {"features[0].table.dtype=fp8"}).find("fp8"), std::string::npos);
}

TEST(PlanTest, RowsHoldOnlyWhatTheModelReads) {
  auto widths = [](const std::string& model, const char* set) {
    Planned p = MakeFrom("data: {label: y}\nfeatures: [{id: a}]\nmodel: " + model + "\n", {set});
    EXPECT_TRUE(p.plan.ok()) << p.plan.status();
    std::string out;
    for (const SegmentSpec& s : p.plan->tables.tables(0).segments()) {
      absl::StrAppend(&out, s.name(), " ", s.dim(), " ", s.optimizer().has_ftrl() ? "ftrl" : "",
                      ";");
    }
    return absl::StrCat(out, p.plan->graph.table_width(0), " at ",
                        p.plan->graph.slots(0).linear_offset(), " ",
                        p.plan->graph.slots(0).embedding_offset());
  };
  EXPECT_EQ(widths("{lr: {}}", "train.seed=1"), "linear 1 ;1 at 0 -1");
  EXPECT_EQ(widths("{fm: {}}", "optimizer.linear.ftrl={}"),
            "linear 1 ftrl;embedding 16 ;17 at 0 1");
  EXPECT_EQ(widths("{dnn: {hidden: 8}}", "optimizer.sparse.ftrl={}"),
            "embedding 16 ftrl;16 at -1 0");
}

TEST(PlanTest, LinearOptimizerWithoutARuleTakesSparses) {
  Planned p = MakeFrom(
      "data: {label: y}\nfeatures: [{id: a}]\nmodel: {fm: {}}\n"
      "optimizer: {sparse: {adam: {lr: 0.5}, l2: 0.1}, linear: {l2: 0}}\n");
  ASSERT_TRUE(p.plan.ok()) << p.plan.status();
  EXPECT_TRUE(Is<OptimizerOptions>(p.plan->tables.tables(0).segments(0).optimizer(),
                                   "adam { lr: 0.5 } l2: 0"));
  EXPECT_TRUE(Is<OptimizerOptions>(p.plan->tables.tables(0).segments(1).optimizer(),
                                   "adam { lr: 0.5 } l2: 0.1"));
}

TEST(PlanTest, EveryErrorNamesItsPlace) {
  // Each puts a few lines of features and model below "data: {label: y}".
  const std::pair<const char*, std::string> cases[] = {
      {"features: [{dim: 4}]\nmodel: {lr: {}}",
       "job.yaml:2:12: a feature block is one of id, raw, bucketize, combo, lookup, match, expr, "
       "sequence: this one has none"},
      {"features: [{id: []}]\nmodel: {lr: {}}",
       "job.yaml:2:12: a feature block is one of id, raw, bucketize, combo, lookup, match, expr, "
       "sequence: this one has none"},
      {"features: [{id: a, raw: b}]\nmodel: {lr: {}}",
       "job.yaml:2:20: raw beside id: a feature block has one kind; write two blocks"},
      {"features: [{id: [a, b, a]}]\nmodel: {lr: {}}",
       "job.yaml:2:24: column \"a\" is a feature already, at job.yaml:2:18"},
      {"features: [{id: a}, {raw: a}]\nmodel: {lr: {}}",
       "job.yaml:2:27: column \"a\" is a feature already, at job.yaml:2:17"},
      {"features: [{id: y}]\nmodel: {lr: {}}",
       "job.yaml:2:17: column \"y\" is the label: it cannot be a feature too"},
      {"features: [{id: a, norm: log1p}]\nmodel: {lr: {}}",
       "job.yaml:2:26: norm belongs to raw features, but this block lists id features"},
      {"features: [{raw: a, dim: 4}]\nmodel: {lr: {}}",
       "job.yaml:2:26: dim belongs to id features, but this block lists raw features"},
      {"features: [{raw: a, table: {name: t}}]\nmodel: {lr: {}}",
       "job.yaml:2:21: table belongs to id features, but this block lists raw features"},
      {"features: [{id: a, dim: 4}]\nmodel: {lr: {}}",
       "job.yaml:2:25: model lr uses no embeddings: remove dim"},
      {"features: [{id: a, dim: 4}, {id: b, dim: 8}]\nmodel: {fm: {}}",
       "job.yaml:2:42: model fm multiplies embeddings: dim must be 4 here as at job.yaml:2:25"},
      {"features: [{raw: a}]\nmodel: {deepfm: {hidden: 4}}",
       "job.yaml:2:1: model deepfm multiplies embeddings: it needs an id feature"},
      {"features: [{id: a, dim: 4, table: {name: t}}, {id: b, dim: 8, table: {name: t}}]\n"
       "model: {dcnv2: {}}",
       "job.yaml:2:60: table \"t\" has dim 4 at job.yaml:2:25, not 8"},
      {"features: [{id: a, table: {memory: 1GiB}}, {id: b, table: {memory: 2GiB}}]\n"
       "model: {dcnv2: {}}",
       "job.yaml:2:52: table \"dim16\" has other settings at job.yaml:2:20; give them once, or "
       "give "
       "the table another name"},
      {"features: [{id: a, table: {name: ../x}}]\nmodel: {fm: {}}",
       "job.yaml:2:34: name must be letters, digits, `_`, `-` and `.`, and not begin with `.`"},
      {"features: [{id: a, table: {evict: {ttl: 3d}}}]\nmodel: {fm: {}}",
       "job.yaml:2:41: rows age by event time, and there is none: set data.event_time, or remove "
       "ttl"},
      {"features: [{id: a, dim: 0}]\nmodel: {fm: {}}", "job.yaml:2:25: dim must be in 1..512"},
      {"features: [{id: a, dim: 4, table: {admit: {exact_count: 70000}}}]\nmodel: {fm: {}}",
       "job.yaml:2:57: exact_count must be in 1..65535"},
      {"features: [{id: a, dim: 4, table: {admit: {count: 0}}}]\nmodel: {fm: {}}",
       "job.yaml:2:51: count must be in 1..65535"},
      {"features: [{id: a}]\nmodel: {}",
       absl::StrCat("job.yaml:3:1: no model: give one of ", ModelNames())},
      {"features: [{id: a}]\nmodel: {dnn: {}}",
       "job.yaml:3:9: dnn needs hidden, as in {hidden: [400, 400, 400]}"},
      {"features: [{id: a}]\nmodel: {dnn: {hidden: [8, 0]}}",
       "job.yaml:3:27: hidden[1] must be in 1..65536"},
      {"features: [{id: a}]\nmodel: {xdeepfm: {hidden: 8}}",
       "job.yaml:3:9: xdeepfm needs the maps of each layer, as in {cin: [64]}"},
      {"features: [{id: a}]\nmodel: {autoint: {heads: 3}}",
       "job.yaml:3:26: heads must divide attention_dim, which is 64"},
      {"features: [{id: a}]\nmodel: {finalmlp: {mlp1: {hidden: 4}, mlp2: {hidden: 5}, heads: 2}}",
       "job.yaml:3:39: its last width, 5, must be a multiple of heads, which is 2"},
      {"features: [{id: a}]\nmodel: {dnn: {hidden: 8, dropout: 1}}",
       "job.yaml:3:35: dropout must be at least 0 and less than 1"},
      {"features: [{id: a}]\nmodel: {dnn: {hidden: 8}}\noptimizer: {linear: {sgd: {}}}",
       "job.yaml:4:13: model dnn has no first-order weights: remove linear"},
      {"features: [{id: a}]\nmodel: {lr: {}}\noptimizer: {dense: {adam: {beta1: 1}}}",
       "job.yaml:4:35: beta1 must be at least 0 and less than 1"},
      {"features: [{id: a}]\nmodel: {lr: {}}\ntrain: {early_stop: {}}",
       "job.yaml:4:9: early_stop looks at evaluations: set data.eval"},
      {"features: [{id: a}]\nmodel: {lr: {}}\ntrain: {epochs: 0}",
       "job.yaml:4:17: epochs must be at least 1"},
  };
  for (const auto& [yaml, message] : cases) {
    EXPECT_EQ(ErrorOf(absl::StrCat("data: {label: y}\n", yaml, "\n")), message) << yaml;
  }
}

TEST(PlanTest, AnOverridesErrorNamesTheOverride) {
  EXPECT_EQ(ErrorOf(kJob, {"features[0].dim=0"}), "--set features[0].dim=0: dim must be in 1..512");
  EXPECT_EQ(ErrorOf(kJob, {"model.lr={}"}),
            "job.yaml:4:26: model lr uses no embeddings: remove dim");
}

TEST(PlanTest, LoadPlanReadsAFileAndNamesIt) {
  std::string path = JoinPath(TestRoot(), "plan.yaml");
  ASSERT_TRUE(WriteFileAtomically(path, kJob).ok());
  SourceMap map;
  auto plan = LoadPlan(path, {"name=ads"}, &map);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->job.name(), "ads");
  EXPECT_EQ(map.At("data.label[0]"), absl::StrCat(path, ":2:56"));
  EXPECT_EQ(LoadPlan(path + ".none", {}, &map).status().code(), absl::StatusCode::kNotFound);
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

TEST(PlanTest, SchemaErrorsNameThePlaceAndTheNearestColumn) {
  Planned p = MakeFrom(R"(data: {label: click, event_time: ts, group: user}
features:
  - {id: [item, tags, city]}
  - {raw: price}
model: {fm: {}}
)");
  ASSERT_TRUE(p.plan.ok()) << p.plan.status();
  std::map<std::string, std::string> good = {
      {"click", "int32"},  {"ts", "timestamp[us]"},
      {"user", "string"},  {"item", "dictionary<values=string, indices=int32, ordered=0>"},
      {"city", "int64"},   {"tags", "list<element: int64 not null>"},
      {"price", "double"},
  };
  auto check = [&](const std::string& column, const std::string& type) {
    std::vector<ColumnSchema> schema;
    for (const auto& [name, t] : good) {
      std::string now = name == column ? type : t;
      if (!now.empty()) schema.push_back({name, now});
    }
    if (column == "prices") schema.push_back({column, type});
    return std::string(CheckSchema(*p.plan, p.map, FakeSource(schema)).message());
  };
  EXPECT_EQ(check("", ""), "");
  EXPECT_EQ(check("city", "null"), "");
  EXPECT_EQ(check("ts", "int64"), "");
  EXPECT_EQ(check("ts", "date32[day]"), "");
  EXPECT_EQ(check("click", ""), "job.yaml:1:15: the data has no column \"click\"");
  EXPECT_EQ(check("click", "string"),
            "job.yaml:1:15: column \"click\" must hold numbers; the data has string");
  EXPECT_EQ(check("ts", "string"),
            "job.yaml:1:34: column \"ts\" must hold timestamps, dates or integer seconds; the data "
            "has string");
  EXPECT_EQ(check("tags", "list<item: double>"),
            "job.yaml:3:17: column \"tags\" must hold integers, strings, or lists of either; the "
            "data has list<item: double>");
  EXPECT_NE(check("tags", "list<item: list<item: int64>>"), "");
  EXPECT_EQ(check("price", "list<item: double>"),
            "job.yaml:4:11: column \"price\" must hold numbers; the data has list<item: double>");
  EXPECT_EQ(check("user", "list<item: string>"),
            "job.yaml:1:45: column \"user\" must hold integers or strings; the data has list<item: "
            "string>");
  good["prices"] = "double";
  EXPECT_EQ(check("price", ""),
            "job.yaml:4:11: the data has no column \"price\"; did you mean \"prices\"?");
}

TEST(PlanTest, FeatureHashFollowsTheFeaturesAndNothingElse) {
  uint64_t base = FeatureHash(MakeFrom(kJob).plan->features);
  EXPECT_EQ(base, FeatureHash(MakeFrom(kJob, {"train.seed=8", "data.group=u"}).plan->features));
  EXPECT_NE(base, FeatureHash(MakeFrom(kJob, {"features[1].norm=none"}).plan->features));
  EXPECT_NE(base, FeatureHash(MakeFrom(kJob, {"features[0].vocabulary=v"}).plan->features));
  EXPECT_NE(base, FeatureHash(MakeFrom(kJob, {"features[0].id=[C1..C25]"}).plan->features));
}

}  // namespace
}  // namespace starling
