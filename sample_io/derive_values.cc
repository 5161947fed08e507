// Ids as logs have them: several in one string, with weights, none at all, or
// too many. The last step of an id feature with any of these options.
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "sample_io/derive.h"

namespace starling {
namespace {

class Values : public Derivation {
 public:
  explicit Values(const DeriveStep::Values& options) : options_(options) {}

  absl::Status Derive(const DeriveInput& in, Derived* out, RowFaults* faults) const override {
    const Column& from = *in.columns[0].column;
    RETURN_IF_ERROR(CheckTypes(in));
    StartLists(TypeOf(from), &out->column);
    for (int64_t row = 0; row < in.rows; ++row) {
      const size_t first = Count(out->column);
      std::string fault = AddRow(in, row, out);
      if (fault.empty() && options_.weights()) fault = AddWeights(in, row, first, out);
      if (!fault.empty()) faults->Add(row, from.name, std::move(fault));
      Bound(first, out);
      if (Count(out->column) == first) AddDefault(out);
      if (HasWeights()) out->weights.resize(Count(out->column), 1.0f);
      RETURN_IF_ERROR(EndRow(&out->column));
    }
    return absl::OkStatus();
  }

 private:
  bool HasWeights() const { return options_.weighted() || options_.weights(); }
  static size_t Count(const Column& column) { return column.ints.size() + column.strings.size(); }

  ColumnType TypeOf(const Column& from) const {
    if (!HasNoValue(from)) return from.type;
    return options_.has_default_() ? ColumnType::kString : ColumnType::kInt64;
  }

  absl::Status CheckTypes(const DeriveInput& in) const {
    const Column& from = *in.columns[0].column;
    if (options_.weights()) {
      RETURN_IF_ERROR(CheckNumbers(*in.columns[1].column, "the weights of ids"));
    }
    if (HasNoValue(from)) return absl::OkStatus();
    const bool strings = from.type == ColumnType::kString && from.items == nullptr;
    if (options_.weighted()) {
      const bool map = from.items != nullptr && from.items->items == nullptr &&
                       from.items->type != ColumnType::kString;
      if (!strings && !map) {
        return WrongType(from, "weighted ids", "`id:weight` strings or a map of ids to numbers");
      }
    } else if (options_.has_separator() && !strings) {
      return WrongType(from, "ids with a separator", "strings");
    } else {
      RETURN_IF_ERROR(CheckIds(from, "an id feature"));
    }
    if (options_.has_default_() && from.type != ColumnType::kString) {
      return WrongType(from, "an id feature with `default`", "strings (integers: `default_int`)");
    }
    if (options_.has_default_int() && from.type != ColumnType::kInt64) {
      return WrongType(from, "an id feature with `default_int`", "integers (strings: `default`)");
    }
    return absl::OkStatus();
  }

  // The ids of a row, and their weights if they stand with them. Returns what
  // is wrong with the row, or "".
  std::string AddRow(const DeriveInput& in, int64_t row, Derived* out) const {
    const Column& from = *in.columns[0].column;
    const ValueRange values = in.columns[0].ValuesAt(row);
    const bool split = from.type == ColumnType::kString && from.items == nullptr &&
                       (options_.has_separator() || options_.weighted());
    for (int64_t i = values.begin; i < values.end; ++i) {
      if (split) {
        std::string fault = AddText(from.strings[i], out);
        if (!fault.empty()) return fault;
        continue;
      }
      CopyValue(from, i, &out->column);
      if (!options_.weighted()) continue;
      std::string fault = AddWeight(NumberAt(*from.items, i), out);
      if (!fault.empty()) return fault;
    }
    return "";
  }

  // "a|b", "a:0.5|b:2", or one of these alone. Nothing between two separators is no id.
  std::string AddText(absl::string_view text, Derived* out) const {
    if (!options_.has_separator()) return AddPart(text, out);
    for (absl::string_view part : absl::StrSplit(text, options_.separator(), absl::SkipEmpty())) {
      std::string fault = AddPart(part, out);
      if (!fault.empty()) return fault;
    }
    return "";
  }

  std::string AddPart(absl::string_view part, Derived* out) const {
    if (!options_.weighted()) {
      out->column.strings.push_back(part);
      return "";
    }
    const size_t colon = part.rfind(':');
    double weight = 0;
    if (colon == absl::string_view::npos || !absl::SimpleAtod(part.substr(colon + 1), &weight)) {
      return absl::StrCat("\"", part, "\" is not id:weight");
    }
    out->column.strings.push_back(part.substr(0, colon));
    return AddWeight(weight, out);
  }

  static std::string AddWeight(double weight, Derived* out) {
    out->weights.push_back(static_cast<float>(weight));
    if (std::isfinite(out->weights.back())) return "";
    return absl::StrCat("the weight ", weight, " is not a finite 32-bit number");
  }

  static std::string AddWeights(const DeriveInput& in, int64_t row, size_t first, Derived* out) {
    const Column& from = *in.columns[1].column;
    const ValueRange weights = in.columns[1].ValuesAt(row);
    const size_t ids = Count(out->column) - first;
    if (static_cast<size_t>(weights.size()) != ids) {
      return absl::StrCat(ids, " ids, but ", weights.size(), " weights in column ", from.name);
    }
    for (int64_t i = weights.begin; i < weights.end; ++i) {
      std::string fault = AddWeight(NumberAt(from, i), out);
      if (!fault.empty()) return fault;
    }
    return "";
  }

  // Leaves at most `max_length` of the row's ids.
  void Bound(size_t first, Derived* out) const {
    if (!options_.has_max_length()) return;
    const size_t most = first + options_.max_length();
    Column& column = out->column;
    if (column.ints.size() > most) column.ints.resize(most);
    if (column.strings.size() > most) column.strings.resize(most);
    if (out->weights.size() > most) out->weights.resize(most);
  }

  void AddDefault(Derived* out) const {
    if (options_.has_default_()) out->column.strings.push_back(options_.default_());
    if (options_.has_default_int()) out->column.ints.push_back(options_.default_int());
  }

  const DeriveStep::Values options_;
};

}  // namespace

DerivationOr NewValues(const DeriveStep& step, int inputs) {
  const DeriveStep::Values& options = step.values();
  const int due = options.weights() ? 2 : 1;
  RETURN_IF_ERROR(CheckInputs(inputs, due, due));
  if (options.has_max_length() && options.max_length() < 1) {
    return absl::InvalidArgumentError("max_length must be 1 or more");
  }
  if (options.has_separator() && options.separator().empty()) {
    return absl::InvalidArgumentError("the separator is empty");
  }
  return std::make_unique<Values>(options);
}

}  // namespace starling
