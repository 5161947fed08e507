#include "scheduler/plan.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "dense_net/forward.h"
#include "scheduler/plan_checks.h"
#include "scheduler/plan_tasks.h"

namespace starling {
namespace {

// Resolves the blocks one after another; the first error ends it.
class Planner {
 public:
  Planner(const Job& job, const SourceMap& map)
      : map_(map), model_(ModelName(job.model())), needs_(NeedsOf(job.model())) {
    plan_.job = job;
  }

  absl::StatusOr<Plan> Run() {
    FillDefaults();
    RETURN_IF_ERROR(CheckOptimizerUse());
    for (int i = 0; i < plan_.job.features_size(); ++i) {
      RETURN_IF_ERROR(AddBlock(plan_.job.features(i), absl::StrCat("features[", i, "]")));
    }
    RETURN_IF_ERROR(CheckDims());
    RETURN_IF_ERROR(CheckUser());
    FinishFeatures();
    FinishTables();
    FinishGraph();
    RETURN_IF_ERROR(PlanTasks(map_, &plan_));
    return std::move(plan_);
  }

 private:
  // What the planner knows of a table beside its spec.
  struct TableUse {
    int dim = 0;
    int features = 0;           // Slots so far.
    std::string block;          // Path of the block that made it.
    std::string settings_from;  // Path of the block that carries settings; "": none yet.
  };

  void FillDefaults();
  absl::Status CheckOptimizerUse() const;
  absl::Status AddBlock(const FeatureBlock& block, const std::string& path);
  absl::Status ClaimName(const BlockFeature& feature);
  absl::Status CheckEmbeddingUse(const FeatureBlock& block, const std::string& path) const;
  absl::StatusOr<int> TableOf(const FeatureBlock& block, const std::string& path);
  absl::Status MergeSettings(const TableOptions& settings, const std::string& path, int table);
  absl::Status CheckDims() const;
  absl::Status CheckUser() const;
  void FinishFeatures();
  void FinishTables();
  void FinishGraph();

  const SourceMap& map_;
  const std::string model_;
  const SegmentNeeds needs_;
  Plan plan_;
  std::vector<TableUse> uses_;                // By table.
  std::map<std::string, std::string> names_;  // Feature -> its path.
  int sequences_ = 0;                         // Blocks of sequences that are not pooled.
};

void Planner::FillDefaults() {
  Job& job = plan_.job;
  job.set_name(job.name());
  TrainOptions& train = *job.mutable_train();
  train.set_dir(train.dir());
  if (!train.checkpoint().has_dir()) {
    train.mutable_checkpoint()->set_dir(JoinPath(train.dir(), "ckpt"));
  }
  DataOptions& data = *job.mutable_data();
  if (!data.has_quarantine()) data.set_quarantine(JoinPath(train.dir(), "quarantine"));
  OptimizerBlock& optimizer = *job.mutable_optimizer();
  OptimizerOptions& sparse = *optimizer.mutable_sparse();
  if (sparse.rule_case() == OptimizerOptions::RULE_NOT_SET) sparse.mutable_adagrad();
  OptimizerOptions& dense = *optimizer.mutable_dense();
  if (dense.rule_case() == OptimizerOptions::RULE_NOT_SET) dense.mutable_adam();
  if (!optimizer.has_linear()) return;
  // `linear: {l2: 0}` changes the L2 alone: the rule is still sparse's.
  OptimizerOptions linear = sparse;
  linear.clear_l2();
  linear.clear_clip();
  if (optimizer.linear().rule_case() != OptimizerOptions::RULE_NOT_SET) linear.clear_rule();
  linear.MergeFrom(optimizer.linear());
  *optimizer.mutable_linear() = linear;
}

absl::Status Planner::CheckOptimizerUse() const {
  if (needs_.linear || !plan_.job.optimizer().has_linear()) return absl::OkStatus();
  return map_.Error("optimizer.linear",
                    absl::StrCat("model ", model_, " has no first-order weights: remove linear"));
}

absl::Status Planner::AddBlock(const FeatureBlock& block, const std::string& path) {
  ASSIGN_OR_RETURN(std::vector<BlockFeature> features,
                   FeaturesOfBlock(block, path, plan_.job.data(), map_));
  int table = -1;
  if (features[0].positions && !needs_.sequences) {
    return map_.Error(path + ".sequence",
                      absl::StrCat("model ", model_,
                                   " reads sequences pooled only: give pooling, "
                                   "as in {pooling: mean}, or take din or dien"));
  }
  if (features[0].id) {
    RETURN_IF_ERROR(CheckEmbeddingUse(block, path));
    ASSIGN_OR_RETURN(table, TableOf(block, path));
  }
  for (const BlockFeature& feature : features) {
    RETURN_IF_ERROR(ClaimName(feature));
    plan_.needs.insert(plan_.needs.end(), feature.needs.begin(), feature.needs.end());
    if (feature.raw) {
      *plan_.features.add_raws() = *feature.raw;
      continue;
    }
    IdFeature& id = *plan_.features.add_ids();
    id = *feature.id;
    id.set_table(table);
    SlotSpec& slot = *plan_.graph.add_slots();
    slot.set_name(id.name());
    slot.set_table(table);
    slot.set_slot(uses_[table].features++);
    if (!feature.positions) continue;
    id.set_sequence(sequences_);
    slot.set_sequence(sequences_);
  }
  if (features[0].positions) ++sequences_;
  return absl::OkStatus();
}

// A feature's name is its own. One that is a column as it stands must not tell
// the event's time, which serving does not know.
absl::Status Planner::ClaimName(const BlockFeature& feature) {
  const std::string& name = feature.name();
  const bool plain = feature.id ? feature.id->steps().empty() : feature.raw->steps().empty();
  const DataOptions& data = plan_.job.data();
  if (name.empty()) return map_.Error(feature.path, "a feature's name is empty");
  if (plain && data.has_event_time() && name == data.event_time()) {
    return map_.Error(
        feature.path,
        absl::StrCat("column \"", name, "\" is the event time: it cannot be a feature too"));
  }
  auto [it, fresh] = names_.emplace(name, feature.path);
  if (fresh) return absl::OkStatus();
  return map_.Error(feature.path,
                    absl::StrCat(plain ? "column" : "feature", " \"", name,
                                 "\" is a feature already, at ", map_.At(it->second)));
}

absl::Status Planner::CheckEmbeddingUse(const FeatureBlock& block, const std::string& path) const {
  if (needs_.embedding) return absl::OkStatus();
  auto unused = [&](const char* key, const char* what) {
    return map_.Error(absl::StrCat(path, ".", key),
                      absl::StrCat("model ", model_, " uses no embeddings: remove ", what));
  };
  if (block.has_dim()) return unused("dim", "dim");
  if (block.table().has_init()) return unused("table.init", "init");
  return absl::OkStatus();
}

// The index of the block's table, which is made if its name is new.
absl::StatusOr<int> Planner::TableOf(const FeatureBlock& block, const std::string& path) {
  const int dim = needs_.embedding ? block.dim() : 0;
  std::string name = block.table().name();
  if (name.empty()) name = needs_.embedding ? absl::StrCat("dim", dim) : "linear";
  int table = 0;
  while (table < plan_.tables.tables_size() &&
         plan_.tables.tables(table).options().name() != name) {
    ++table;
  }
  if (table == plan_.tables.tables_size()) {
    plan_.tables.add_tables()->mutable_options()->set_name(name);
    uses_.push_back({.dim = dim, .block = path});
  }
  const TableUse& use = uses_[table];
  if (use.dim != dim) {
    return map_.Error(path + ".dim", absl::StrCat("table \"", name, "\" has dim ", use.dim, " at ",
                                                  map_.At(use.block + ".dim"), ", not ", dim));
  }
  if (block.has_table()) RETURN_IF_ERROR(MergeSettings(block.table(), path, table));
  return table;
}

// Blocks that share a table may leave its settings to one of them, or repeat them.
absl::Status Planner::MergeSettings(const TableOptions& settings, const std::string& path,
                                    int table) {
  TableOptions named = settings;
  TableOptions& known = *plan_.tables.mutable_tables(table)->mutable_options();
  named.set_name(known.name());
  TableOptions bare;
  bare.set_name(known.name());
  using google::protobuf::util::MessageDifferencer;
  if (MessageDifferencer::Equals(named, bare)) return absl::OkStatus();  // A name alone.
  TableUse& use = uses_[table];
  if (use.settings_from.empty()) {
    known = named;
    use.settings_from = path;
    return absl::OkStatus();
  }
  if (MessageDifferencer::Equivalent(known, named)) return absl::OkStatus();
  return map_.Error(path + ".table",
                    absl::StrCat("table \"", known.name(), "\" has other settings at ",
                                 map_.At(use.settings_from + ".table"),
                                 "; give them once, or give the table another name"));
}

absl::Status Planner::CheckDims() const {
  if (!MultipliesEmbeddings(plan_.job.model())) return absl::OkStatus();
  if (uses_.empty()) {
    return map_.Error("features", absl::StrCat("model ", model_,
                                               " multiplies embeddings: it needs an id feature"));
  }
  for (const TableUse& use : uses_) {
    if (use.dim == uses_[0].dim) continue;
    return map_.Error(use.block + ".dim",
                      absl::StrCat("model ", model_, " multiplies embeddings: dim must be ",
                                   uses_[0].dim, " here as at ", map_.At(uses_[0].block + ".dim")));
  }
  return absl::OkStatus();
}

// Every column of the user is read by some feature.
absl::Status Planner::CheckUser() const {
  const DataOptions& data = plan_.job.data();
  for (int i = 0; i < data.user_size(); ++i) {
    const bool read = data.user(i) == data.group() ||
                      std::any_of(plan_.needs.begin(), plan_.needs.end(),
                                  [&](const auto& need) { return need.column == data.user(i); });
    if (read) continue;
    return map_.Error(absl::StrCat("data.user[", i, "]"),
                      absl::StrCat("no feature reads column \"", data.user(i), "\": remove it"));
  }
  return absl::OkStatus();
}

void Planner::FinishFeatures() {
  const DataOptions& data = plan_.job.data();
  plan_.features.set_tables(plan_.tables.tables_size());
  plan_.features.set_label(data.label(0));
  for (int i = 1; i < data.label_size(); ++i) plan_.features.add_more_labels(data.label(i));
  if (data.has_event_time()) plan_.features.set_event_time(data.event_time());
  if (data.has_group()) plan_.features.set_group(data.group());
  std::vector<ColumnNeed> fields;
  for (int i = 0; i < data.label_size(); ++i) {
    const std::string path = absl::StrCat("data.label[", i, "]");
    fields.push_back({path, data.label(i), ColumnUse::kLabel});
  }
  if (data.has_weight()) {
    plan_.features.set_weight(data.weight());
    fields.push_back({"data.weight", data.weight(), ColumnUse::kLabel});
  }
  if (data.has_event_time()) {
    fields.push_back({"data.event_time", data.event_time(), ColumnUse::kTime});
  }
  if (data.has_group()) fields.push_back({"data.group", data.group(), ColumnUse::kGroup});
  if (data.has_request()) {
    plan_.features.set_request(data.request());
    fields.push_back({"data.request", data.request(), ColumnUse::kGroup});
  }
  if (data.sample().has_weight()) {
    fields.push_back({"data.sample.weight", data.sample().weight(), ColumnUse::kNumber});
  }
  *plan_.features.mutable_user() = data.user();
  plan_.needs.insert(plan_.needs.begin(), fields.begin(), fields.end());
}

void Planner::FinishTables() {
  const OptimizerBlock& optimizer = plan_.job.optimizer();
  for (int t = 0; t < plan_.tables.tables_size(); ++t) {
    TableSpec& table = *plan_.tables.mutable_tables(t);
    table.set_seed(plan_.job.train().seed());
    if (needs_.linear) {
      SegmentSpec& linear = *table.add_segments();
      linear.set_name("linear");
      linear.set_dim(1);
      linear.set_init(0);
      *linear.mutable_optimizer() =
          optimizer.has_linear() ? optimizer.linear() : optimizer.sparse();
    }
    if (!needs_.embedding) continue;
    SegmentSpec& embedding = *table.add_segments();
    embedding.set_name("embedding");
    embedding.set_dim(uses_[t].dim);
    embedding.set_init(table.options().init());
    *embedding.mutable_optimizer() = optimizer.sparse();
  }
}

void Planner::FinishGraph() {
  GraphSpec& graph = plan_.graph;
  *graph.mutable_model() = plan_.job.model();
  graph.set_seed(plan_.job.train().seed());
  const int linear = needs_.linear ? 1 : 0;
  for (SlotSpec& slot : *graph.mutable_slots()) {
    slot.set_linear_offset(needs_.linear ? 0 : -1);
    slot.set_embedding_offset(needs_.embedding ? linear : -1);
    slot.set_embedding_dim(uses_[slot.table()].dim);
  }
  for (const RawFeature& raw : plan_.features.raws()) {
    if (!raw.has_width()) graph.add_raws(raw.name());
    for (int i = 0; i < raw.width(); ++i) graph.add_raws(absl::StrCat(raw.name(), "[", i, "]"));
  }
  for (const TableUse& use : uses_) graph.add_table_width(linear + use.dim);
}

}  // namespace

absl::StatusOr<Plan> MakePlan(const Job& job, const SourceMap& map) {
  RETURN_IF_ERROR(CheckValues(job, map));
  ASSIGN_OR_RETURN(Plan plan, Planner(job, map).Run());
  RETURN_IF_ERROR(CheckShared(plan.job.train(), plan.graph, map));
  return plan;
}

absl::StatusOr<Plan> LoadPlan(const std::string& path, const std::vector<std::string>& overrides,
                              SourceMap* map) {
  ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  Job job;
  RETURN_IF_ERROR(ParseYaml(text, path, overrides, &job, map));
  return MakePlan(job, *map);
}

}  // namespace starling
