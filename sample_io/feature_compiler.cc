#include "sample_io/feature_compiler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/hash.h"
#include "base/status.h"
#include "sample_io/unique_ids.h"

namespace starling {
namespace {

absl::Status WrongType(const Column& column, absl::string_view role, absl::string_view due) {
  return absl::FailedPreconditionError(absl::StrCat("column ", column.name, ": ", role, " must be ",
                                                    due, ", but the column holds ",
                                                    ColumnTypeName(column), " values"));
}

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

double NumberAt(const Column& column, int64_t row) {
  return column.type == ColumnType::kInt64 ? static_cast<double>(column.ints[row])
                                           : column.doubles[row];
}

float Normalise(double x, RawFeature::Norm norm) {
  if (norm == RawFeature::LOG1P) x = std::copysign(std::log1p(std::fabs(x)), x);
  return static_cast<float>(x);
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

// The columns of one Compile, looked up and of the right types.
struct Inputs {
  const ColumnBatch* batch = nullptr;
  std::vector<const Column*> ids;
  std::vector<const Column*> raws;
  const Column* label = nullptr;  // These three are null if not asked for.
  const Column* event_time = nullptr;
  const Column* group = nullptr;
};

// What a thread reuses from batch to batch.
struct Scratch {
  UniqueIds unique;
  std::vector<int64_t> kept;           // Rows of the ColumnBatch that are good.
  std::vector<int64_t> requests;       // And the requests they belong to; empty in the flat form.
  std::vector<uint32_t> request_rows;  // By the latter: good rows,
  std::vector<int64_t> request_times;  // and the latest event time.
  std::vector<uint64_t> ids;           // Of one slot, in its order.
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
      seeds_.push_back(VocabularySeed(id.vocabulary().empty() ? id.name() : id.vocabulary()));
    }
    for (const RawFeature& raw : features_.raws()) {
      missing_.push_back(Normalise(raw.missing(), raw.norm()));
      if (std::isfinite(missing_.back())) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("feature ", raw.name(), ": `missing` must be a finite number"));
    }
    return absl::OkStatus();
  }

  const FeatureSet& features() const override { return features_; }
  std::vector<std::string> Columns() const override { return ColumnsOf(features_, true); }

  absl::Status Compile(const ColumnBatch& columns, std::span<const int64_t> rows, bool with_labels,
                       Batch* batch, std::vector<BadRow>* bad) const override {
    ASSIGN_OR_RETURN(Inputs inputs, FindInputs(columns, with_labels));
    static thread_local Scratch scratch;
    size_t n = rows.empty() ? columns.rows : rows.size();
    scratch.kept.clear();
    batch->dense.resize(n * inputs.raws.size());
    for (size_t i = 0; i < n; ++i) {
      int64_t row = rows.empty() ? static_cast<int64_t>(i) : rows[i];
      if (FillRow(inputs, row, batch->dense.data() + scratch.kept.size() * inputs.raws.size(),
                  bad)) {
        scratch.kept.push_back(row);
      }
    }
    batch->dense.resize(scratch.kept.size() * inputs.raws.size());
    FillRowFields(inputs, scratch.kept, batch);
    FillRequests(columns, &scratch, batch);
    return FillTables(inputs, &scratch, batch);
  }

 private:
  absl::StatusOr<Inputs> FindInputs(const ColumnBatch& columns, bool with_labels) const {
    Inputs in;
    in.batch = &columns;
    for (const IdFeature& id : features_.ids()) {
      ASSIGN_OR_RETURN(const Column* column, Find(columns, id.name(), "an id feature"));
      if (column->type == ColumnType::kDouble) {
        return WrongType(*column, "an id feature", "integers or strings, or lists of these");
      }
      in.ids.push_back(column);
    }
    for (const RawFeature& raw : features_.raws()) {
      ASSIGN_OR_RETURN(const Column* column, FindNumber(columns, raw.name(), "a raw feature"));
      in.raws.push_back(column);
    }
    if (!with_labels) return in;
    if (features_.has_label()) {
      ASSIGN_OR_RETURN(in.label, FindNumber(columns, features_.label(), "the label"));
    }
    if (features_.has_event_time()) {
      ASSIGN_OR_RETURN(in.event_time, Find(columns, features_.event_time(), "the event time"));
      if (in.event_time->is_list || in.event_time->type != ColumnType::kInt64) {
        return WrongType(*in.event_time, "the event time", "a timestamp or integer seconds");
      }
    }
    if (features_.has_group()) {
      ASSIGN_OR_RETURN(in.group, Find(columns, features_.group(), "the group"));
      if (in.group->is_list || in.group->type == ColumnType::kDouble) {
        return WrongType(*in.group, "the group", "an integer or a string");
      }
    }
    return in;
  }

  // Writes the row's raw features to `dense`. False, and one more in `bad`, if
  // the row cannot be used.
  bool FillRow(const Inputs& in, int64_t row, float* dense, std::vector<BadRow>* bad) const {
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
      const Column& column = *in.raws[f];
      const int64_t at = in.batch->EntryOf(column, row);
      if (column.IsNull(at)) {
        dense[f] = missing_[f];
        continue;
      }
      double value = NumberAt(column, at);
      dense[f] = Normalise(value, features_.raws(static_cast<int>(f)).norm());
      if (!std::isfinite(dense[f])) {
        return refuse(column, absl::StrCat("the value is ", value, ", not a finite 32-bit number"));
      }
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

  // The requests of the rows that were kept, numbered anew.
  static void FillRequests(const ColumnBatch& columns, Scratch* scratch, Batch* batch) {
    scratch->requests.clear();
    scratch->request_rows.clear();
    scratch->request_times.clear();
    if (columns.flat()) return;
    for (size_t i = 0; i < scratch->kept.size(); ++i) {
      const int64_t request = columns.request_of_row[scratch->kept[i]];
      const int64_t time = batch->event_times.empty() ? 0 : batch->event_times[i];
      if (scratch->requests.empty() || scratch->requests.back() != request) {
        scratch->requests.push_back(request);
        scratch->request_rows.push_back(0);
        scratch->request_times.push_back(0);
      }
      ++scratch->request_rows.back();
      scratch->request_times.back() = std::max(scratch->request_times.back(), time);
      batch->request_of_row.push_back(static_cast<uint32_t>(scratch->requests.size() - 1));
    }
    batch->requests = static_cast<uint32_t>(scratch->requests.size());
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
        occurrences += FillOffsets(*in.ids[features[s]], *scratch, &table.slots[s]);
      }
      if (occurrences > std::numeric_limits<uint32_t>::max() / 2) {
        return absl::FailedPreconditionError(
            absl::StrCat("column ", in.ids[features[0]]->name, " and its table's others hold ",
                         occurrences, " ids in one batch; use smaller batches"));
      }
      scratch->unique.Start(occurrences);
      for (size_t s = 0; s < features.size(); ++s) {
        FillSlot(features[s], *in.ids[features[s]], scratch, &table.slots[s]);
      }
      scratch->unique.Finish({batch->event_times, {}},
                             {scratch->request_times, scratch->request_rows}, &table);
    }
    return absl::OkStatus();
  }

  // The column's rows that the batch holds, in its order.
  static const std::vector<int64_t>& EntriesOf(const Column& column, const Scratch& scratch) {
    return column.by_request ? scratch.requests : scratch.kept;
  }

  // Returns the number of ids. The offsets of more than 2^32 ids are not used.
  static size_t FillOffsets(const Column& column, const Scratch& scratch, Slot* slot) {
    const std::vector<int64_t>& entries = EntriesOf(column, scratch);
    slot->axis = column.by_request ? Axis::kRequest : Axis::kRow;
    slot->offsets.resize(entries.size() + 1);
    slot->offsets[0] = 0;
    size_t end = 0;
    for (size_t i = 0; i < entries.size(); ++i) {
      int64_t row = entries[i];
      if (!column.IsNull(row)) {
        end += column.is_list ? column.list_offsets[row + 1] - column.list_offsets[row] : 1;
      }
      slot->offsets[i + 1] = static_cast<uint32_t>(end);
    }
    return end;
  }

  void FillSlot(int feature, const Column& column, Scratch* scratch, Slot* slot) const {
    const uint64_t seed = seeds_[feature];
    const IdFeature::Pooling pooling = features_.ids(feature).pooling();
    slot->index.resize(slot->offsets.back());
    slot->weights.clear();
    scratch->ids.resize(slot->index.size());
    const std::vector<int64_t>& entries = EntriesOf(column, *scratch);
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
      if (share == 1.0f && slot->weights.empty()) continue;
      slot->weights.resize(slot->offsets.back(), 1.0f);
      std::fill_n(slot->weights.begin() + begin, n, share);
    }
    scratch->unique.Number(scratch->ids, slot->index.data());
  }

  const FeatureSet features_;
  std::vector<std::vector<int>> slots_of_table_;  // Features, by table, in their order.
  std::vector<uint64_t> seeds_;                   // By id feature.
  std::vector<float> missing_;                    // By raw feature, normalised.
};

}  // namespace

std::vector<std::string> ColumnsOf(const FeatureSet& features, bool with_labels) {
  std::vector<std::string> names;
  auto add = [&](const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const IdFeature& id : features.ids()) add(id.name());
  for (const RawFeature& raw : features.raws()) add(raw.name());
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
