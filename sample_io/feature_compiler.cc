#include "sample_io/feature_compiler.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <utility>

#include "base/hash.h"
#include "base/status.h"
#include "sample_io/dense_rows.h"
#include "sample_io/feature_inputs.h"
#include "sample_io/requests.h"
#include "sample_io/row_fields.h"
#include "sample_io/slot_values.h"
#include "sample_io/unique_ids.h"

namespace starling {
namespace {

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

// The columns of one Compile, looked up and of the right types.
struct Inputs {
  const ColumnBatch* batch = nullptr;
  std::vector<Input> ids;
  std::vector<Input> raws;
  RowFields fields;
};

// What a thread reuses from batch to batch.
struct Scratch {
  UniqueIds unique;
  std::vector<int64_t> asked;           // Rows of the ColumnBatch,
  std::vector<int64_t> asked_requests;  // their requests, if not flat,
  std::vector<uint8_t> good;            // and which of them can be used:
  std::vector<int64_t> kept;            // these rows …
  std::vector<int64_t> places;          // … and their places among those asked for.
  std::vector<float> request_dense;     // By request asked for: its raw features,
  std::vector<uint8_t> request_good;    // and whether they can be used.
  KeptRequests requests;
  std::vector<int64_t> request_places;  // Of the kept requests, among those asked for.
  std::vector<uint64_t> keys;           // Of one slot, in its order.
  DerivedColumns derived;

  // The entries of an input's column that the rows asked for have, …
  std::span<const int64_t> AskedOf(const Input& input) const {
    return input.derived ? derived.EntriesOf(*input.column) : AskedOf(*input.column);
  }
  std::span<const int64_t> AskedOf(const Column& column) const {
    return column.by_request ? asked_requests : asked;
  }
  // … and those that the kept rows have.
  std::span<const int64_t> EntriesOf(const Input& input) const {
    if (input.column->by_request) return input.derived ? request_places : requests.entries;
    return input.derived ? places : kept;
  }
  // IsRun, looked at once for slots of the same entries. `run_of` is forgotten with each table.
  bool Run(std::span<const int64_t> entries) {
    if (entries.data() != run_of) is_run = IsRun(entries);
    run_of = entries.data();
    return is_run;
  }
  const int64_t* run_of = nullptr;
  bool is_run = false;
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
    batch->request_work = batch->row_work = {};
    FillDense(inputs, &scratch, batch);
    inputs.fields.Check(scratch.asked, scratch.asked_requests, scratch.good);
    KeepGood(inputs, &scratch, batch, bad);
    batch->rows = batch->requests = static_cast<uint32_t>(scratch.kept.size());
    batch->request_of_row.clear();
    inputs.fields.Fill(scratch.kept, batch);
    scratch.requests.Fill(columns, scratch.kept, batch);
    scratch.derived.RequestPlaces(scratch.places, &scratch.request_places);
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

  absl::StatusOr<Inputs> FindInputs(const ColumnBatch& columns, std::span<const int64_t> rows,
                                    bool with_labels, Scratch* scratch) const {
    Inputs in;
    in.batch = &columns;
    scratch->asked.assign(rows.begin(), rows.end());
    if (rows.empty()) {
      scratch->asked.resize(columns.rows);
      std::iota(scratch->asked.begin(), scratch->asked.end(), 0);
    }
    RequestsOf(columns, scratch->asked, &scratch->asked_requests);
    scratch->derived.Start(columns, scratch->asked, scratch->asked_requests);
    for (int i = 0; i < features_.ids_size(); ++i) {
      ASSIGN_OR_RETURN(Input input, FindInput(features_.ids(i), id_steps_[i], "an id feature",
                                              &scratch->derived));
      RETURN_IF_ERROR(CheckIds(*input.column, "an id feature"));
      in.ids.push_back(input);
    }
    for (int i = 0; i < features_.raws_size(); ++i) {
      ASSIGN_OR_RETURN(Input input, FindInput(features_.raws(i), raw_steps_[i], "a raw feature",
                                              &scratch->derived));
      RETURN_IF_ERROR(CheckRaw(*input.column, raw_plans_[i].is_list));
      in.raws.push_back(input);
    }
    if (with_labels) {
      ASSIGN_OR_RETURN(in.fields, RowFields::Find(features_, columns));
    }
    return in;
  }

  static absl::Status CheckRaw(const Column& column, bool is_list) {
    const bool numbers = column.type != ColumnType::kString && column.items == nullptr;
    if ((numbers && column.is_list == is_list) || HasNoValue(column)) return absl::OkStatus();
    return WrongType(column, "a raw feature", is_list ? "a list of numbers" : "a number");
  }

  // The raw features of all rows asked for. Those of requests are scaled once each.
  void FillDense(const Inputs& in, Scratch* scratch, Batch* batch) const {
    const size_t n = scratch->asked.size();
    batch->dense.resize(n * dense_width_);
    scratch->good.assign(n, 1);
    const std::span<const int64_t> request_of_row = scratch->derived.request_of_row();
    const size_t requests = request_of_row.empty() ? 0 : request_of_row.back() + 1;
    scratch->request_dense.resize(requests * dense_width_);
    scratch->request_good.assign(requests, 1);
    const int64_t of_requests =
        FillTiles(in, scratch, true, scratch->request_dense.data(), &scratch->request_good);
    if (of_requests > 0) {
      CopyToRows(scratch->request_dense, request_of_row, dense_width_, batch->dense.data());
      for (size_t i = 0; i < n; ++i) scratch->good[i] = scratch->request_good[request_of_row[i]];
    }
    batch->request_work.scaled = of_requests;
    batch->row_work.scaled = FillTiles(in, scratch, false, batch->dense.data(), &scratch->good);
  }

  // The features of requests, or of rows, some entries at a time: these stay in
  // the cache. Returns the number of values.
  int64_t FillTiles(const Inputs& in, Scratch* scratch, bool of_requests, float* dense,
                    std::vector<uint8_t>* good) const {
    constexpr size_t kTile = 256;
    int64_t values = 0;
    for (size_t begin = 0; begin < good->size(); begin += kTile) {
      const size_t n = std::min(kTile, good->size() - begin);
      float* out = dense + begin * dense_width_;
      for (size_t f = 0; f < in.raws.size(); out += raw_plans_[f++].width) {
        const Input& input = in.raws[f];
        if (input.column->by_request != of_requests) continue;
        const auto entries =
            of_requests ? scratch->derived.RequestsIn(input) : scratch->AskedOf(input);
        FillNumbers(*input.column, entries.subspan(begin, n), raw_plans_[f], dense_width_, out,
                    good->data() + begin);
        values += static_cast<int64_t>(n) * raw_plans_[f].width;
      }
    }
    return values;
  }

  // Lists the good rows, closes the gaps in `dense`, and says what is wrong with the others.
  void KeepGood(const Inputs& in, Scratch* scratch, Batch* batch, std::vector<BadRow>* bad) const {
    scratch->kept.clear();
    scratch->places.clear();
    const auto& good = scratch->good;
    if (scratch->derived.faults.empty() && std::find(good.begin(), good.end(), 0) == good.end()) {
      scratch->kept = scratch->asked;
      const std::span<const int64_t> places = scratch->derived.places();
      return scratch->places.assign(places.begin(), places.end());
    }
    for (size_t i = 0; i < scratch->asked.size(); ++i) {
      const int64_t row = scratch->asked[i];
      if (const RowFaults::Fault* fault = scratch->derived.faults.Find(static_cast<int64_t>(i))) {
        bad->push_back({row, fault->column, fault->reason});
        continue;
      }
      if (!scratch->good[i]) {
        bad->push_back(WhyBad(in, *scratch, i));
        continue;
      }
      if (scratch->kept.size() != i) {
        std::copy_n(
            batch->dense.begin() + static_cast<int64_t>(i) * dense_width_, dense_width_,
            batch->dense.begin() + static_cast<int64_t>(scratch->kept.size()) * dense_width_);
      }
      scratch->kept.push_back(row);
      scratch->places.push_back(static_cast<int64_t>(i));
    }
    batch->dense.resize(scratch->kept.size() * dense_width_);
  }

  // The first column at fault. REQUIRES: row asked[i] is not good.
  BadRow WhyBad(const Inputs& in, const Scratch& scratch, size_t i) const {
    const int64_t row = scratch.asked[i];
    if (auto bad = in.fields.WhyBad(row)) return *std::move(bad);
    for (size_t f = 0; f < in.raws.size(); ++f) {
      const Column& column = *in.raws[f].column;
      std::string why = WhyNotNumbers(column, scratch.AskedOf(in.raws[f])[i], raw_plans_[f]);
      if (!why.empty()) return {row, column.name, std::move(why)};
    }
    std::abort();  // Some check above has cleared good[i].
  }

  // That of a batch's table: its numbers and codes have 32 bits.
  static absl::Status CheckSize(const Inputs& in, const std::vector<int>& features,
                                const Scratch& scratch) {
    size_t all = 0;
    for (int feature : features) {
      const Input& input = in.ids[feature];
      const std::span<const int64_t> entries = scratch.EntriesOf(input);
      const size_t values = ValuesMax(*input.column, entries);
      all += values;
      if (std::max(values, entries.size()) <= Occurrences::EntriesMax(features.size())) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          "column ", input.column->name, " holds ", values, " ids in one batch, and its table has ",
          features.size(), " columns; use smaller batches"));
    }
    if (all <= std::numeric_limits<uint32_t>::max() / 4) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat("column ", in.ids[features[0]].column->name,
                                                      " and its table's others hold ", all,
                                                      " ids in one batch; use smaller batches"));
  }

  absl::Status FillTables(const Inputs& in, Scratch* scratch, Batch* batch) const {
    batch->tables.resize(slots_of_table_.size());
    size_t first_slot = 0;
    for (size_t t = 0; t < slots_of_table_.size(); ++t) {
      TableIds& table = batch->tables[t];
      const std::vector<int>& features = slots_of_table_[t];
      table.slots.resize(features.size());
      RETURN_IF_ERROR(CheckSize(in, features, *scratch));
      scratch->unique.Start(first_slot);
      scratch->run_of = nullptr;
      for (size_t s = 0; s < features.size(); ++s) {
        FillSlot(features[s], in.ids[features[s]], batch, scratch, &table.slots[s]);
      }
      scratch->unique.Finish(&table);
      first_slot += features.size();
    }
    return absl::OkStatus();
  }

  void FillSlot(int feature, const Input& input, Batch* batch, Scratch* scratch, Slot* slot) const {
    const std::span<const int64_t> entries = scratch->EntriesOf(input);
    slot->owner = input.column->by_request ? Axis::kRequest : Axis::kRow;
    slot->axis = features_.ids(feature).has_sequence() ? Axis::kPosition : slot->owner;
    uint32_t* entry_of = scratch->unique.EntryRoom(ValuesMax(*input.column, entries));
    const UniqueIds::Keys keys = FillValues(*input.column, entries, scratch->Run(entries),
                                            seeds_[feature], &scratch->keys, entry_of, slot);
    FillWeights(features_.ids(feature).pooling(), input, entries, slot);
    const EntryFacts rows = {batch->event_times, {}};
    const EntryFacts requests = {scratch->requests.times, scratch->requests.rows};
    const bool of_requests = slot->entries() == Axis::kRequest;
    const int64_t fresh = scratch->unique.Add(keys, of_requests ? requests : rows, slot);
    slot->distinct = static_cast<uint32_t>(fresh);
    (of_requests ? batch->request_work : batch->row_work).hashed +=
        keys.are_ids ? std::ssize(keys.values) : fresh;
  }

  static void FillWeights(IdFeature::Pooling pooling, const Input& input,
                          std::span<const int64_t> entries, Slot* slot) {
    slot->weights.clear();
    if (!input.column->is_list && input.weights.empty()) return;
    for (size_t e = 0; e < entries.size(); ++e) {
      const uint32_t begin = slot->offsets[e], n = slot->offsets[e + 1] - begin;
      if (n == 0) continue;
      // Weights appear with the first share that is not 1.
      float share = PoolingShare(pooling, n);
      if (share == 1.0f && slot->weights.empty() && input.weights.empty()) continue;
      slot->weights.resize(slot->offsets.back(), 1.0f);
      std::fill_n(slot->weights.begin() + begin, n, share);
      if (input.weights.empty()) continue;
      const int64_t first = ValuesOf(*input.column, entries[e]).begin;
      for (uint32_t i = 0; i < n; ++i) slot->weights[begin + i] *= input.weights[first + i];
    }
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
  for (const std::string& label : LabelsOf(features)) add(label);
  if (features.has_event_time()) add(features.event_time());
  if (features.has_group()) add(features.group());
  if (features.has_request()) add(features.request());
  if (features.has_weight()) add(features.weight());
  return names;
}

absl::StatusOr<std::unique_ptr<FeatureCompiler>> FeatureCompiler::Create(
    const FeatureSet& features) {
  auto compiler = std::make_unique<Compiler>(features);
  RETURN_IF_ERROR(compiler->Init());
  return compiler;
}

}  // namespace starling
