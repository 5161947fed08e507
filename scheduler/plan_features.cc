#include "scheduler/plan_features.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "sample_io/expression.h"
#include "scheduler/plan_feature_keys.h"

namespace starling {
namespace {

// A member of nested data hashes as the column of that name in a flat log does.
std::string MemberOf(const std::string& column) { return column.substr(column.rfind('.') + 1); }

constexpr int kComboLength = 1024;  // Combinations of a row, unless the block says.

// Makes the features of one block, whose keys have been checked.
class BlockReader {
 public:
  BlockReader(const FeatureBlock& block, const std::string& kind, const std::string& path,
              const DataOptions& data, const SourceMap& map)
      : block_(block),
        kind_(kind),
        ids_(GivesIds(block, kind)),
        path_(path),
        data_(data),
        map_(map) {}

  absl::StatusOr<std::vector<BlockFeature>> Run() {
    absl::Status status = kind_ == "id"          ? AddIds()
                          : kind_ == "raw"       ? AddRaws()
                          : kind_ == "bucketize" ? AddBuckets()
                          : kind_ == "combo"     ? AddCombo()
                          : kind_ == "lookup"    ? AddLookup()
                          : kind_ == "match"     ? AddMatch()
                          : kind_ == "expr"      ? AddExpr()
                                                 : AddSequence();
    RETURN_IF_ERROR(status);
    for (const BlockFeature& feature : features_) {
      for (const ColumnNeed& need : feature.needs) RETURN_IF_ERROR(CheckColumn(need));
    }
    return std::move(features_);
  }

 private:
  std::string Path(absl::string_view key) const { return absl::StrCat(path_, ".", key); }
  std::string Path(absl::string_view key, int i) const {
    return absl::StrCat(path_, ".", key, "[", i, "]");
  }

  absl::Status CheckColumn(const ColumnNeed& need) const {
    if (need.column.empty()) return map_.Error(need.path, "a column's name is empty");
    const auto& labels = data_.label();
    const bool label = std::find(labels.begin(), labels.end(), need.column) != labels.end();
    if (!label && need.column != data_.weight()) return absl::OkStatus();
    return map_.Error(
        need.path, absl::StrCat("column \"", need.column, "\" is the ", label ? "label" : "weight",
                                ": it cannot be a feature too"));
  }

  // One more feature, with what the block says of all.
  BlockFeature& Add(const std::string& name, const std::string& path) {
    return Add(name, path, ids_);
  }
  BlockFeature& Add(const std::string& name, const std::string& path, bool is_id) {
    BlockFeature& feature = features_.emplace_back();
    feature.path = path;
    if (is_id) {
      IdFeature& id = feature.id.emplace();
      id.set_name(name);
      id.set_vocabulary(block_.has_vocabulary() ? block_.vocabulary() : MemberOf(name));
      id.set_pooling(block_.pooling());
      if (block_.has_salt()) id.set_salt(block_.salt());
    } else {
      RawFeature& raw = feature.raw.emplace();
      raw.set_name(name);
      raw.set_norm(block_.norm());
      raw.set_missing(block_.missing());
      if (block_.has_clip()) *raw.mutable_clip() = block_.clip();
      if (block_.has_minmax()) *raw.mutable_minmax() = block_.minmax();
      if (block_.has_zscore()) *raw.mutable_zscore() = block_.zscore();
    }
    return feature;
  }
  static DeriveStep& AddStep(BlockFeature* feature) {
    return feature->id ? *feature->id->add_steps() : *feature->raw->add_steps();
  }
  static void Read(const ColumnNeed& need, DeriveStep* step, BlockFeature* feature) {
    if (step != nullptr) step->add_columns(need.column);
    feature->needs.push_back(need);
  }

  // The steps that end a derived feature: its bucket, then the limits of ids.
  void Finish(BlockFeature* feature) const {
    if (block_.boundaries_size() > 0) {
      *AddStep(feature).mutable_bucketize()->mutable_boundaries() = block_.boundaries();
    }
    const bool bounded = block_.has_max_length() && kind_ != "combo" && kind_ != "sequence";
    if (!bounded && !block_.has_default_() && !block_.has_default_int()) return;
    FillValues(bounded, AddStep(feature).mutable_values());
  }
  void FillValues(bool bounded, DeriveStep::Values* values) const {
    if (bounded) values->set_max_length(block_.max_length());
    if (block_.has_default_()) values->set_default_(block_.default_());
    if (block_.has_default_int()) values->set_default_int(block_.default_int());
  }

  absl::Status AddIds() {
    if (block_.has_weights() && block_.id_size() != 1) {
      return map_.Error(Path("weights"), "weights are those of one column: write a block for each");
    }
    if (block_.has_name() && block_.id_size() != 1) {
      return map_.Error(Path("name"), "name is that of one feature: write a block for each");
    }
    const bool plain = !block_.has_separator() && !block_.weighted() && !block_.has_weights() &&
                       !block_.has_max_length() && !block_.has_default_() &&
                       !block_.has_default_int() && !block_.has_name();
    const ColumnUse use = block_.weighted()        ? ColumnUse::kWeighted
                          : block_.has_separator() ? ColumnUse::kStrings
                                                   : ColumnUse::kIds;
    for (int i = 0; i < block_.id_size(); ++i) {
      BlockFeature& feature =
          block_.has_name() ? Add(block_.name(), Path("name")) : Add(block_.id(i), Path("id", i));
      DeriveStep* step = plain ? nullptr : &AddStep(&feature);
      Read({Path("id", i), block_.id(i), use}, step, &feature);
      if (plain) continue;
      DeriveStep::Values& values = *step->mutable_values();
      if (block_.has_separator()) values.set_separator(block_.separator());
      if (block_.weighted()) values.set_weighted(true);
      FillValues(block_.has_max_length(), &values);
      if (!block_.has_weights()) continue;
      values.set_weights(true);
      Read({Path("weights"), block_.weights(), ColumnUse::kNumbers}, step, &feature);
    }
    return absl::OkStatus();
  }

  absl::Status AddRaws() {
    for (int i = 0; i < block_.raw_size(); ++i) {
      BlockFeature& feature = Add(block_.raw(i), Path("raw", i));
      if (block_.has_width()) feature.raw->set_width(block_.width());
      Read({Path("raw", i), block_.raw(i),
            block_.has_width() ? ColumnUse::kVector : ColumnUse::kNumber},
           nullptr, &feature);
    }
    return absl::OkStatus();
  }

  absl::Status AddBuckets() {
    if (block_.has_name() && block_.bucketize_size() != 1) {
      return map_.Error(Path("name"), "name is that of one feature: write a block for each");
    }
    for (int i = 0; i < block_.bucketize_size(); ++i) {
      const std::string path = Path("bucketize", i);
      BlockFeature& feature = Add(block_.has_name() ? block_.name() : block_.bucketize(i),
                                  block_.has_name() ? Path("name") : path);
      Finish(&feature);
      Read({path, block_.bucketize(i), ColumnUse::kNumbers}, feature.id->mutable_steps(0),
           &feature);
    }
    return absl::OkStatus();
  }

  absl::Status AddCombo() {
    if (block_.combo_size() < 2 || block_.combo_size() > 4) {
      return map_.Error(Path("combo"), "combo crosses 2..4 columns");
    }
    BlockFeature& feature =
        Add(block_.has_name() ? block_.name() : absl::StrJoin(block_.combo(), "_x_"),
            Path(block_.has_name() ? "name" : "combo"));
    DeriveStep& step = AddStep(&feature);
    step.mutable_combo()->set_max_length(block_.has_max_length() ? block_.max_length()
                                                                 : kComboLength);
    for (int i = 0; i < block_.combo_size(); ++i) {
      Read({Path("combo", i), block_.combo(i), ColumnUse::kIds}, &step, &feature);
    }
    Finish(&feature);
    return absl::OkStatus();
  }

  absl::Status NeedName() const {
    if (!block_.name().empty()) return absl::OkStatus();
    return map_.Error(Path(kind_), absl::StrCat(kind_, " needs a name for its feature: give name"));
  }

  absl::Status AddLookup() {
    RETURN_IF_ERROR(NeedName());
    const FeatureBlock::Lookup& lookup = block_.lookup();
    if (lookup.separator().empty()) {
      return map_.Error(Path("lookup.separator"), "separator is empty");
    }
    BlockFeature& feature = Add(block_.name(), Path("name"));
    DeriveStep& step = AddStep(&feature);
    step.mutable_lookup()->set_as_id(block_.as() == FeatureBlock::ID);
    step.mutable_lookup()->set_combine(lookup.combine());
    step.mutable_lookup()->set_separator(lookup.separator());
    Read({Path("lookup.map"), lookup.map(), ColumnUse::kMap}, &step, &feature);
    Read({Path("lookup.key"), lookup.key(), ColumnUse::kIds}, &step, &feature);
    Finish(&feature);
    return absl::OkStatus();
  }

  absl::Status AddMatch() {
    RETURN_IF_ERROR(NeedName());
    const FeatureBlock::Match& match = block_.match();
    BlockFeature& feature = Add(block_.name(), Path("name"));
    DeriveStep& step = AddStep(&feature);
    step.mutable_match()->set_as_id(block_.as() == FeatureBlock::ID);
    step.mutable_match()->set_combine(match.combine());
    Read({Path("match.nested_map"), match.nested_map(), ColumnUse::kNestedMap}, &step, &feature);
    Read({Path("match.pkey"), match.pkey(), ColumnUse::kIds}, &step, &feature);
    Read({Path("match.skey"), match.skey(), ColumnUse::kIds}, &step, &feature);
    Finish(&feature);
    return absl::OkStatus();
  }

  absl::Status AddExpr() {
    auto expression = Expression::Parse(block_.expr());
    if (!expression.ok()) return map_.Error(Path("expr"), expression.status().message());
    RETURN_IF_ERROR(NeedName());
    BlockFeature& feature = Add(block_.name(), Path("name"));
    DeriveStep& step = AddStep(&feature);
    step.mutable_expr()->set_text(block_.expr());
    for (const std::string& column : expression->columns()) {
      Read({Path("expr"), column, ColumnUse::kNumber}, &step, &feature);
    }
    Finish(&feature);
    return absl::OkStatus();
  }

  // Without pooling the model reads each event.
  absl::Status CheckPositions() const {
    if (block_.sequence().raws_size() > 0) {
      return map_.Error(Path("sequence.raws"),
                        "numbers of a sequence are pooled: give pooling, as in {pooling: mean}, or "
                        "write them to a block of their own");
    }
    if (!block_.has_max_length()) {
      return map_.Error(Path("sequence"),
                        "the model reads each event of a sequence without pooling: give "
                        "max_length, the most events of a row, or pooling, as in {pooling: mean}");
    }
    return absl::OkStatus();
  }

  absl::Status CheckSequence() const {
    const FeatureBlock::Sequence& sequence = block_.sequence();
    if (sequence.ids().empty() && sequence.raws().empty()) {
      return map_.Error(Path("sequence"),
                        "a sequence lists columns under ids or raws: this has none");
    }
    if (!block_.has_pooling()) RETURN_IF_ERROR(CheckPositions());
    if (sequence.vocabularies_size() > 0 &&
        (sequence.vocabularies_size() != sequence.ids_size() || block_.has_vocabulary())) {
      return map_.Error(Path("sequence.vocabularies"),
                        "vocabularies are one for each of ids, and then there is no vocabulary");
    }
    if (sequence.has_within() && !sequence.has_time()) {
      return map_.Error(Path("sequence.within"), "within needs the events' times: give time");
    }
    if (sequence.has_within() && !(sequence.within() >= 0)) {
      return map_.Error(Path("sequence.within"), "within must be at least 0");
    }
    if (sequence.has_time() && !data_.has_event_time()) {
      return map_.Error(Path("sequence.time"),
                        "events are cut by the row's event time, and there is none: set "
                        "data.event_time, or remove time");
    }
    return absl::OkStatus();
  }

  absl::Status AddSequence() {
    RETURN_IF_ERROR(CheckSequence());
    const FeatureBlock::Sequence& sequence = block_.sequence();
    for (int i = 0; i < sequence.ids_size(); ++i) {
      BlockFeature& feature = Add(sequence.ids(i), Path("sequence.ids", i), true);
      feature.positions = !block_.has_pooling();
      if (i < sequence.vocabularies_size()) feature.id->set_vocabulary(sequence.vocabularies(i));
      AddSequenceStep({Path("sequence.ids", i), sequence.ids(i), ColumnUse::kIdList}, &feature);
      Finish(&feature);
    }
    for (int i = 0; i < sequence.raws_size(); ++i) {
      BlockFeature& feature = Add(sequence.raws(i), Path("sequence.raws", i), false);
      AddSequenceStep({Path("sequence.raws", i), sequence.raws(i), ColumnUse::kVector}, &feature);
      AddStep(&feature).mutable_pool()->set_pooling(block_.pooling());
    }
    return absl::OkStatus();
  }

  // Reads the list itself, then those beside it, which are needs of their own features.
  void AddSequenceStep(const ColumnNeed& own, BlockFeature* feature) const {
    const FeatureBlock::Sequence& sequence = block_.sequence();
    DeriveStep& step = AddStep(feature);
    DeriveStep::Sequence& options = *step.mutable_sequence();
    if (block_.has_max_length()) options.set_max_length(block_.max_length());
    options.set_keep(sequence.keep());
    Read(own, &step, feature);
    for (const auto* lists : {&sequence.ids(), &sequence.raws()}) {
      for (const std::string& column : *lists) {
        if (column != own.column) step.add_columns(column);
      }
    }
    if (!sequence.has_time()) return;
    options.set_timed(true);
    if (sequence.has_within()) options.set_within(sequence.within());
    Read({Path("sequence.time"), sequence.time(), ColumnUse::kTimes}, &step, feature);
    Read({"data.event_time", data_.event_time(), ColumnUse::kTime}, &step, feature);
  }

  const FeatureBlock& block_;
  const std::string kind_;
  const bool ids_;
  const std::string path_;
  const DataOptions& data_;
  const SourceMap& map_;
  std::vector<BlockFeature> features_;
};

}  // namespace

absl::StatusOr<std::vector<BlockFeature>> FeaturesOfBlock(const FeatureBlock& block,
                                                          const std::string& path,
                                                          const DataOptions& data,
                                                          const SourceMap& map) {
  ASSIGN_OR_RETURN(const std::string kind, FeatureKind(block, path, map));
  RETURN_IF_ERROR(CheckFeatureKeys(block, kind, path, map));
  return BlockReader(block, kind, path, data, map).Run();
}

}  // namespace starling
