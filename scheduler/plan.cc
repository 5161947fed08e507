#include "scheduler/plan.h"

#include <google/protobuf/util/message_differencer.h>

#include <map>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/status.h"
#include "dense_net/forward.h"
#include "scheduler/plan_checks.h"

namespace starling {
namespace {

// A member of nested data hashes as the column of that name in a flat log does.
std::string MemberOf(const std::string& column) { return column.substr(column.rfind('.') + 1); }

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
    FinishFeatures();
    FinishTables();
    FinishGraph();
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
  absl::Status CheckKeys(const FeatureBlock& block, const std::string& path) const;
  absl::Status ClaimColumn(const std::string& column, const std::string& path);
  absl::Status AddIds(const FeatureBlock& block, const std::string& path);
  absl::Status AddRaws(const FeatureBlock& block, const std::string& path);
  absl::StatusOr<int> TableOf(const FeatureBlock& block, const std::string& path);
  absl::Status MergeSettings(const TableOptions& settings, const std::string& path, int table);
  absl::Status CheckDims() const;
  void FinishFeatures();
  void FinishTables();
  void FinishGraph();

  const SourceMap& map_;
  const std::string model_;
  const SegmentNeeds needs_;
  Plan plan_;
  std::vector<TableUse> uses_;                  // By table.
  std::map<std::string, std::string> columns_;  // Feature column -> its path.
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

absl::Status Planner::CheckKeys(const FeatureBlock& block, const std::string& path) const {
  auto misplaced = [&](bool has, const char* key, const char* kind, const char* other) {
    if (!has) return absl::OkStatus();
    return map_.Error(absl::StrCat(path, ".", key),
                      absl::StrCat(key, " belongs to ", kind, " features, but this block lists ",
                                   other, " features"));
  };
  if (block.id_size() > 0) {
    RETURN_IF_ERROR(misplaced(block.has_norm(), "norm", "raw", "id"));
    return misplaced(block.has_missing(), "missing", "raw", "id");
  }
  RETURN_IF_ERROR(misplaced(block.has_dim(), "dim", "id", "raw"));
  RETURN_IF_ERROR(misplaced(block.has_table(), "table", "id", "raw"));
  RETURN_IF_ERROR(misplaced(block.has_pooling(), "pooling", "id", "raw"));
  return misplaced(block.has_vocabulary(), "vocabulary", "id", "raw");
}

absl::Status Planner::AddBlock(const FeatureBlock& block, const std::string& path) {
  if (block.id_size() == 0 && block.raw_size() == 0) {
    return map_.Error(path, "a feature block lists columns under id or raw: this one has none");
  }
  if (block.id_size() > 0 && block.raw_size() > 0) {
    return map_.Error(path + ".raw",
                      "raw beside id: a feature block has one kind; write two blocks");
  }
  RETURN_IF_ERROR(CheckKeys(block, path));
  return block.id_size() > 0 ? AddIds(block, path) : AddRaws(block, path);
}

absl::Status Planner::ClaimColumn(const std::string& column, const std::string& path) {
  const DataOptions& data = plan_.job.data();
  auto taken = [&](absl::string_view as) {
    return map_.Error(
        path, absl::StrCat("column \"", column, "\" is ", as, ": it cannot be a feature too"));
  };
  if (column.empty()) return map_.Error(path, "a column's name is empty");
  if (column == data.label()) return taken("the label");
  if (data.has_event_time() && column == data.event_time()) return taken("the event time");
  auto [it, fresh] = columns_.emplace(column, path);
  if (fresh) return absl::OkStatus();
  return map_.Error(
      path, absl::StrCat("column \"", column, "\" is a feature already, at ", map_.At(it->second)));
}

absl::Status Planner::AddIds(const FeatureBlock& block, const std::string& path) {
  if (!needs_.embedding) {
    auto unused = [&](const char* key) {
      return map_.Error(absl::StrCat(path, ".", key),
                        absl::StrCat("model ", model_, " uses no embeddings: remove ",
                                     absl::string_view(key) == "dim" ? "dim" : "init"));
    };
    if (block.has_dim()) return unused("dim");
    if (block.table().has_init()) return unused("table.init");
  }
  ASSIGN_OR_RETURN(int table, TableOf(block, path));
  for (int i = 0; i < block.id_size(); ++i) {
    RETURN_IF_ERROR(ClaimColumn(block.id(i), absl::StrCat(path, ".id[", i, "]")));
    IdFeature& feature = *plan_.features.add_ids();
    feature.set_name(block.id(i));
    feature.set_vocabulary(block.has_vocabulary() ? block.vocabulary() : MemberOf(block.id(i)));
    feature.set_table(table);
    feature.set_pooling(block.pooling());
    SlotSpec& slot = *plan_.graph.add_slots();
    slot.set_name(block.id(i));
    slot.set_table(table);
    slot.set_slot(uses_[table].features++);
  }
  return absl::OkStatus();
}

absl::Status Planner::AddRaws(const FeatureBlock& block, const std::string& path) {
  for (int i = 0; i < block.raw_size(); ++i) {
    RETURN_IF_ERROR(ClaimColumn(block.raw(i), absl::StrCat(path, ".raw[", i, "]")));
    RawFeature& feature = *plan_.features.add_raws();
    feature.set_name(block.raw(i));
    feature.set_norm(block.norm());
    feature.set_missing(block.missing());
  }
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

// Factorisation machines multiply embeddings with each other.
absl::Status Planner::CheckDims() const {
  if (!plan_.job.model().has_fm() && !plan_.job.model().has_deepfm()) return absl::OkStatus();
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

void Planner::FinishFeatures() {
  const DataOptions& data = plan_.job.data();
  plan_.features.set_tables(plan_.tables.tables_size());
  plan_.features.set_label(data.label());
  if (data.has_event_time()) plan_.features.set_event_time(data.event_time());
  if (data.has_group()) plan_.features.set_group(data.group());
  if (data.has_request()) plan_.features.set_request(data.request());
  *plan_.features.mutable_user() = data.user();
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
  for (const RawFeature& raw : plan_.features.raws()) graph.add_raws(raw.name());
  for (const TableUse& use : uses_) graph.add_table_width(linear + use.dim);
}

}  // namespace

absl::StatusOr<Plan> MakePlan(const Job& job, const SourceMap& map) {
  RETURN_IF_ERROR(CheckValues(job, map));
  return Planner(job, map).Run();
}

absl::StatusOr<Plan> LoadPlan(const std::string& path, const std::vector<std::string>& overrides,
                              SourceMap* map) {
  ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  Job job;
  RETURN_IF_ERROR(ParseYaml(text, path, overrides, &job, map));
  return MakePlan(job, *map);
}

uint64_t FeatureHash(const FeatureSet& features) {
  // Field by field, so that it depends on no serialisation. Label, event time
  // and group are left out: they change no feature.
  uint64_t hash = VocabularySeed("features");
  auto add = [&hash](absl::string_view text) { hash = HashBytes(text, hash); };
  for (const IdFeature& id : features.ids()) {
    add("id");
    add(id.name());
    add(id.vocabulary());
    add(absl::StrCat(id.table(), " ", id.pooling()));
  }
  for (const RawFeature& raw : features.raws()) {
    add("raw");
    add(raw.name());
    add(absl::StrCat(raw.norm(), " ", raw.missing()));
  }
  return hash;
}

}  // namespace starling
