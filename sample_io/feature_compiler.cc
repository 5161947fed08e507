#include "sample_io/feature_compiler.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <utility>

#include "base/hash.h"
#include "base/status.h"
#include "sample_io/derive.h"
#include "sample_io/raw_scale.h"
#include "sample_io/requests.h"
#include "sample_io/unique_ids.h"

namespace starling {
namespace {

absl::StatusOr<const Column*> Find(const ColumnBatch& columns, const std::string& name,
                                   absl::string_view role) {
  if (const Column* column = columns.Find(name)) return column;
  return absl::FailedPreconditionError(
      absl::StrCat("column ", name, " (", role, ") is not in the data"));
}

absl::StatusOr<const Column*> FindNumber(const ColumnBatch& columns, const std::string& name,
                                         absl::string_view role) {
  ASSIGN_OR_RETURN(const Column* column, Find(columns, name, role));
  if (!column->is_list && column->type != ColumnType::kString) return column;
  return WrongType(*column, role, "a number");
}

float PoolingShare(IdFeature::Pooling pooling, size_t n) {
  switch (pooling) {
    case IdFeature::MEAN:
      return 1.0f / static_cast<float>(n);
    case IdFeature::SQRTN:
      return 1.0f / std::sqrt(static_cast<float>(n));
    default:
      return 1.0f;
  }
}

// A feature's column: of the data, or derived for this batch.
struct Input {
  const Column* column = nullptr;
  std::span<const float> weights;  // One a value; empty: all 1.
  bool derived = false;
};

// The columns of one Compile, looked up and of the right types.
struct Inputs {
  const ColumnBatch* batch = nullptr;
  std::vector<Input> ids;
  std::vector<Input> raws;
  const Column* label = nullptr;  // These three are null if not asked for.
  const Column* event_time = nullptr;
  const Column* group = nullptr;
};

// What a thread reuses from batch to batch.
struct Scratch {
  UniqueIds unique;
  std::vector<int64_t> kept;    // Rows of the ColumnBatch that are good …
  std::vector<int64_t> places;  // … and their places among all rows asked for.
  KeptRequests requests;
  std::vector<int64_t> asked_requests;  // By row asked for.
  std::vector<uint64_t> ids;            // Of one slot, in its order.
  std::deque<Derived> derived;          // Their addresses stay.
  RowFaults faults;

  // The entries of an input's column that the kept rows have.
  std::span<const int64_t> EntriesOf(const Input& input) const {
    if (input.derived) return places;
    return input.column->by_request ? requests.entries : kept;
  }
};

// The steps of one feature, ready to run; none if its column is used as it stands.
using Steps = std::vector<std::unique_ptr<Derivation>>;

// How one raw feature becomes numbers.
struct RawPlan {
  RawScale scale;
  float missing = 0;  // Scaled.
  int width = 1;
  bool is_list = false;
};

class Compiler : public FeatureCompiler {
 public:
  explicit Compiler(const FeatureSet& features) : features_(features) {}

  absl::Status Init() {
    slots_of_table_.resize(std::max(0, features_.tables()));
    for (int i = 0; i < features_.ids_size(); ++i) {
      const IdFeature& id = features_.ids(i);
      if (id.table() < 0 || id.table() >= features_.tables()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "feature ", id.name(), ": table ", id.table(), " is not one of ", features_.tables()));
      }
      slots_of_table_[id.table()].push_back(i);
      uint64_t seed = VocabularySeed(id.vocabulary().empty() ? id.name() : id.vocabulary());
      if (id.has_salt()) seed = HashBytes(id.salt(), seed);
      seeds_.push_back(seed);
      RETURN_IF_ERROR(AddSteps(id.name(), id.steps(), &id_steps_));
    }
    for (const RawFeature& raw : features_.raws()) RETURN_IF_ERROR(AddRaw(raw));
    return absl::OkStatus();
  }

  const FeatureSet& features() const override { return features_; }
  std::vector<std::string> Columns() const override { return ColumnsOf(features_, true); }

  absl::Status Compile(const ColumnBatch& columns, std::span<const int64_t> rows, bool with_labels,
                       Batch* batch, std::vector<BadRow>* bad) const override {
    static thread_local Scratch scratch;
    ASSIGN_OR_RETURN(Inputs inputs, FindInputs(columns, rows, with_labels, &scratch));
    const int64_t n = rows.empty() ? columns.rows : static_cast<int64_t>(rows.size());
    scratch.kept.clear();
    scratch.places.clear();
    batch->dense.resize(n * dense_width_);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t row = rows.empty() ? i : rows[i];
      if (const RowFaults::Fault* fault = scratch.faults.Find(i)) {
        bad->push_back({row, fault->column, fault->reason});
      } else if (FillRow(inputs, row, i, batch->dense.data() + scratch.kept.size() * dense_width_,
                         bad)) {
        scratch.kept.push_back(row);
        scratch.places.push_back(i);
      }
    }
    batch->dense.resize(scratch.kept.size() * dense_width_);
    FillRowFields(inputs, scratch.kept, batch);
    scratch.requests.Fill(columns, scratch.kept, batch);
    return FillTables(inputs, &scratch, batch);
  }

 private:
  absl::Status AddRaw(const RawFeature& raw) {
    RawPlan plan = {.scale = RawScale(raw),
                    .width = raw.has_width() ? raw.width() : 1,
                    .is_list = raw.has_width()};
    plan.missing = plan.scale(raw.missing());
    if (!std::isfinite(plan.missing)) {
      return absl::InvalidArgumentError(
          absl::StrCat("feature ", raw.name(), ": `missing` must be a finite number"));
    }
    if (plan.width < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("feature ", raw.name(), ": width ", plan.width));
    }
    dense_width_ += plan.width;
    raw_plans_.push_back(plan);
    return AddSteps(raw.name(), raw.steps(), &raw_steps_);
  }

  static absl::Status AddSteps(const std::string& feature,
                               const google::protobuf::RepeatedPtrField<DeriveStep>& from,
                               std::vector<Steps>* to) {
    Steps& steps = to->emplace_back();
    for (const DeriveStep& step : from) {
      auto derivation = NewDerivation(step, step.columns_size() + (steps.empty() ? 0 : 1));
      if (!derivation.ok()) return Annotate(derivation.status(), "feature " + feature);
      steps.push_back(*std::move(derivation));
    }
    return absl::OkStatus();
  }

  // The column of a feature: found, or derived into `scratch`.
  template <typename Feature>
  static absl::StatusOr<Input> FindInput(const Feature& feature, const Steps& steps,
                                         const ColumnBatch& columns, std::span<const int64_t> rows,
                                         absl::string_view role, Scratch* scratch) {
    Input input;
    if (steps.empty()) {
      ASSIGN_OR_RETURN(input.column, Find(columns, feature.name(), role));
      return input;
    }
    DeriveInput in = {.rows = rows.empty() ? columns.rows : static_cast<int64_t>(rows.size())};
    for (size_t s = 0; s < steps.size(); ++s) {
      in.columns.clear();
      if (s > 0) in.columns.push_back({&scratch->derived.back().column, {}});
      for (const std::string& name : feature.steps(static_cast<int>(s)).columns()) {
        ASSIGN_OR_RETURN(const Column* column,
                         Find(columns, name, absl::StrCat("read by feature ", feature.name())));
        in.columns.push_back({column, column->by_request ? scratch->asked_requests : rows});
      }
      Derived& out = scratch->derived.emplace_back();
      out.column.name = feature.name();
      out.column.rows = in.rows;
      RETURN_IF_ERROR(steps[s]->Derive(in, &out, &scratch->faults));
    }
    return Input{&scratch->derived.back().column, scratch->derived.back().weights, true};
  }

  absl::StatusOr<Inputs> FindInputs(const ColumnBatch& columns, std::span<const int64_t> rows,
                                    bool with_labels, Scratch* scratch) const {
    Inputs in;
    in.batch = &columns;
    scratch->asked_requests = RequestsOf(columns, rows);
    scratch->derived.clear();
    scratch->faults.Clear();
    for (int i = 0; i < features_.ids_size(); ++i) {
      ASSIGN_OR_RETURN(Input input, FindInput(features_.ids(i), id_steps_[i], columns, rows,
                                              "an id feature", scratch));
      RETURN_IF_ERROR(CheckIds(*input.column, "an id feature"));
      in.ids.push_back(input);
    }
    for (int i = 0; i < features_.raws_size(); ++i) {
      ASSIGN_OR_RETURN(Input input, FindInput(features_.raws(i), raw_steps_[i], columns, rows,
                                              "a raw feature", scratch));
      RETURN_IF_ERROR(CheckRaw(*input.column, raw_plans_[i].is_list));
      in.raws.push_back(input);
    }
    if (with_labels) RETURN_IF_ERROR(FindRowFields(columns, &in));
    return in;
  }

  static absl::Status CheckRaw(const Column& column, bool is_list) {
    const bool numbers = column.type != ColumnType::kString && column.items == nullptr;
    if ((numbers && column.is_list == is_list) || HasNoValue(column)) return absl::OkStatus();
    return WrongType(column, "a raw feature", is_list ? "a list of numbers" : "a number");
  }

  absl::Status FindRowFields(const ColumnBatch& columns, Inputs* in) const {
    if (features_.has_label()) {
      ASSIGN_OR_RETURN(in->label, FindNumber(columns, features_.label(), "the label"));
    }
    if (features_.has_event_time()) {
      ASSIGN_OR_RETURN(in->event_time, Find(columns, features_.event_time(), "the event time"));
      if (in->event_time->is_list || in->event_time->type != ColumnType::kInt64) {
        return WrongType(*in->event_time, "the event time", "a timestamp or integer seconds");
      }
    }
    if (features_.has_group()) {
      ASSIGN_OR_RETURN(in->group, Find(columns, features_.group(), "the group"));
      if (in->group->is_list || in->group->type == ColumnType::kDouble) {
        return WrongType(*in->group, "the group", "an integer or a string");
      }
    }
    return absl::OkStatus();
  }

  // Writes the raw features of a row, and of its place in the batch, to `dense`.
  // False, and one more in `bad`, if the row cannot be used.
  bool FillRow(const Inputs& in, int64_t row, int64_t place, float* dense,
               std::vector<BadRow>* bad) const {
    auto refuse = [&](const Column& column, std::string reason) {
      bad->push_back({row, column.name, std::move(reason)});
      return false;
    };
    if (in.label != nullptr) {
      const int64_t at = in.batch->EntryOf(*in.label, row);
      if (in.label->IsNull(at)) return refuse(*in.label, "the label is null");
      double label = NumberAt(*in.label, at);
      if (!(label >= 0 && label <= 1)) {
        return refuse(*in.label, absl::StrCat("the label is ", label, ", not in 0..1"));
      }
    }
    if (in.event_time != nullptr && in.event_time->IsNull(in.batch->EntryOf(*in.event_time, row))) {
      return refuse(*in.event_time, "the event time is null");
    }
    for (size_t f = 0; f < in.raws.size(); ++f) {
      const RawPlan& plan = raw_plans_[f];
      const Column& column = *in.raws[f].column;
      const int64_t entry = in.raws[f].derived ? place : in.batch->EntryOf(column, row);
      const ValueRange values = ValuesOf(column, entry);
      if (column.IsNull(entry)) {
        std::fill_n(dense, plan.width, plan.missing);
      } else if (values.size() != plan.width) {
        return refuse(column,
                      absl::StrCat("a list of ", values.size(), " numbers, not of ", plan.width));
      } else {
        for (int64_t i = 0; i < plan.width; ++i) {
          const double value = NumberAt(column, values.begin + i);
          dense[i] = plan.scale(value);
          if (std::isfinite(dense[i])) continue;
          return refuse(column,
                        absl::StrCat("the value is ", value, ", not a finite 32-bit number"));
        }
      }
      dense += plan.width;
    }
    return true;
  }

  void FillRowFields(const Inputs& in, std::span<const int64_t> kept, Batch* batch) const {
    batch->rows = batch->requests = static_cast<uint32_t>(kept.size());
    batch->request_of_row.clear();
    batch->labels.clear();
    batch->event_times.clear();
    batch->groups.clear();
    batch->event_time_max = 0;
    for (int64_t row : kept) {
      if (in.label) {
        const int64_t at = in.batch->EntryOf(*in.label, row);
        batch->labels.push_back(static_cast<float>(NumberAt(*in.label, at)));
      }
      if (in.event_time) {
        const int64_t time = in.event_time->ints[in.batch->EntryOf(*in.event_time, row)];
        batch->event_times.push_back(time);
        batch->event_time_max = std::max(batch->event_time_max, time);
      }
    }
    if (!in.group) return;
    const uint64_t seed = VocabularySeed(features_.group());
    for (int64_t row : kept) {
      const int64_t at = in.batch->EntryOf(*in.group, row);
      batch->groups.push_back(in.group->IsNull(at) ? 0 : IdOf(*in.group, at, seed));
    }
  }

  static uint64_t IdOf(const Column& column, int64_t i, uint64_t seed) {
    return column.type == ColumnType::kInt64 ? HashInt64(column.ints[i], seed)
                                             : HashBytes(column.strings[i], seed);
  }

  absl::Status FillTables(const Inputs& in, Scratch* scratch, Batch* batch) const {
    batch->tables.resize(slots_of_table_.size());
    for (size_t t = 0; t < slots_of_table_.size(); ++t) {
      TableIds& table = batch->tables[t];
      const std::vector<int>& features = slots_of_table_[t];
      table.slots.resize(features.size());
      size_t occurrences = 0;
      for (size_t s = 0; s < features.size(); ++s) {
        const Input& input = in.ids[features[s]];
        table.slots[s].axis = input.column->by_request ? Axis::kRequest : Axis::kRow;
        occurrences += FillOffsets(*input.column, scratch->EntriesOf(input), &table.slots[s]);
      }
      if (occurrences > std::numeric_limits<uint32_t>::max() / 2) {
        return absl::FailedPreconditionError(absl::StrCat(
            "column ", in.ids[features[0]].column->name, " and its table's others hold ",
            occurrences, " ids in one batch; use smaller batches"));
      }
      scratch->unique.Start(occurrences);
      for (size_t s = 0; s < features.size(); ++s) {
        FillSlot(features[s], in.ids[features[s]], scratch, &table.slots[s]);
      }
      scratch->unique.Finish({batch->event_times, {}},
                             {scratch->requests.times, scratch->requests.rows}, &table);
    }
    return absl::OkStatus();
  }

  // Returns the number of ids. The offsets of more than 2^32 ids are not used.
  static size_t FillOffsets(const Column& column, std::span<const int64_t> kept, Slot* slot) {
    slot->offsets.resize(kept.size() + 1);
    slot->offsets[0] = 0;
    size_t end = 0;
    for (size_t i = 0; i < kept.size(); ++i) {
      int64_t row = kept[i];
      if (!column.IsNull(row)) {
        end += column.is_list ? column.list_offsets[row + 1] - column.list_offsets[row] : 1;
      }
      slot->offsets[i + 1] = static_cast<uint32_t>(end);
    }
    return end;
  }

  void FillSlot(int feature, const Input& input, Scratch* scratch, Slot* slot) const {
    const Column& column = *input.column;
    const std::span<const int64_t> entries = scratch->EntriesOf(input);
    const uint64_t seed = seeds_[feature];
    const IdFeature::Pooling pooling = features_.ids(feature).pooling();
    slot->index.resize(slot->offsets.back());
    slot->weights.clear();
    scratch->ids.resize(slot->index.size());
    for (size_t e = 0; e < entries.size(); ++e) {
      const uint32_t begin = slot->offsets[e], n = slot->offsets[e + 1] - begin;
      if (n == 0) continue;
      int64_t first = entries[e];
      if (column.is_list) first = column.list_offsets[first];
      for (uint32_t i = 0; i < n; ++i) {
        scratch->ids[begin + i] = IdOf(column, first + i, seed);
      }
      // Weights appear with the first share that is not 1.
      float share = PoolingShare(pooling, n);
      if (share == 1.0f && slot->weights.empty() && input.weights.empty()) continue;
      slot->weights.resize(slot->offsets.back(), 1.0f);
      std::fill_n(slot->weights.begin() + begin, n, share);
      if (input.weights.empty()) continue;
      for (uint32_t i = 0; i < n; ++i) slot->weights[begin + i] *= input.weights[first + i];
    }
    scratch->unique.Number(scratch->ids, slot->index.data());
  }

  const FeatureSet features_;
  std::vector<std::vector<int>> slots_of_table_;  // Features, by table, in their order.
  std::vector<uint64_t> seeds_;                   // By id feature.
  std::vector<Steps> id_steps_, raw_steps_;       // By feature.
  std::vector<RawPlan> raw_plans_;                // By raw feature.
  int64_t dense_width_ = 0;                       // Columns of Batch::dense.
};

}  // namespace

std::vector<std::string> ColumnsOf(const FeatureSet& features, bool with_labels) {
  std::vector<std::string> names;
  auto add = [&](const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  auto add_inputs = [&](const auto& feature) {
    if (feature.steps().empty()) add(feature.name());
    for (const DeriveStep& step : feature.steps()) {
      for (const std::string& name : step.columns()) add(name);
    }
  };
  for (const IdFeature& id : features.ids()) add_inputs(id);
  for (const RawFeature& raw : features.raws()) add_inputs(raw);
  if (!with_labels) return names;
  if (features.has_label()) add(features.label());
  if (features.has_event_time()) add(features.event_time());
  if (features.has_group()) add(features.group());
  if (features.has_request()) add(features.request());
  return names;
}

absl::StatusOr<std::unique_ptr<FeatureCompiler>> FeatureCompiler::Create(
    const FeatureSet& features) {
  auto compiler = std::make_unique<Compiler>(features);
  RETURN_IF_ERROR(compiler->Init());
  return compiler;
}

}  // namespace starling
