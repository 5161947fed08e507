// sequence: one list of an event sequence that several lists describe (items,
// their categories, their times). The lists of a row must be of one length.
// Events after the row's own time, or too long before it, are left out; then the
// last (or first) `max_length` are kept.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "sample_io/derive.h"

namespace starling {
namespace {

class Sequence : public Derivation {
 public:
  Sequence(const DeriveStep::Sequence& options, int lists) : options_(options), lists_(lists) {}

  absl::Status Derive(const DeriveInput& in, Derived* out, RowFaults* faults) const override {
    const Column& own = *in.columns[0].column;
    RETURN_IF_ERROR(CheckTypes(in));
    StartLists(own.type, &out->column);
    std::vector<int64_t> kept;  // Places in the row's list.
    for (int64_t row = 0; row < in.rows; ++row) {
      const ValueRange values = in.columns[0].ValuesAt(row);
      if (Aligned(in, row, faults) && Choose(in, row, values.size(), &kept, faults)) {
        for (int64_t i : kept) CopyValue(own, values.begin + i, &out->column);
      }
      RETURN_IF_ERROR(EndRow(&out->column));
    }
    return absl::OkStatus();
  }

 private:
  const ColumnView& Times(const DeriveInput& in) const { return in.columns[lists_ - 1]; }
  const ColumnView& Now(const DeriveInput& in) const { return in.columns[lists_]; }

  absl::Status CheckTypes(const DeriveInput& in) const {
    for (int c = 0; c < lists_; ++c) {
      const Column& column = *in.columns[c].column;
      if ((column.is_list && column.items == nullptr) || HasNoValue(column)) continue;
      return WrongType(column, "a part of a sequence", "a list");
    }
    if (!options_.timed()) return absl::OkStatus();
    for (const ColumnView* view : {&Times(in), &Now(in)}) {
      const Column& column = *view->column;
      const bool list = view == &Times(in);
      const bool fits = column.type == ColumnType::kInt64 && column.is_list == list;
      if (fits || HasNoValue(column)) continue;
      return WrongType(
          column, list ? "the times of a sequence" : "the event time",
          list ? "a list of timestamps or integer seconds" : "a timestamp or integer seconds");
    }
    return absl::OkStatus();
  }

  bool Aligned(const DeriveInput& in, int64_t row, RowFaults* faults) const {
    const int64_t size = in.columns[0].ValuesAt(row).size();
    for (int c = 1; c < lists_; ++c) {
      const int64_t other = in.columns[c].ValuesAt(row).size();
      if (other == size) continue;
      faults->Add(row, in.columns[0].column->name,
                  absl::StrCat("a sequence of ", size, " events, but of ", other, " in column ",
                               in.columns[c].column->name));
      return false;
    }
    return true;
  }

  // Fills `kept` with the places of the events that stay, ascending.
  bool Choose(const DeriveInput& in, int64_t row, int64_t size, std::vector<int64_t>* kept,
              RowFaults* faults) const {
    kept->clear();
    if (options_.timed() && size > 0) {
      const ValueRange now = Now(in).ValuesAt(row);
      if (now.size() == 0) {
        faults->Add(row, Now(in).column->name,
                    "a sequence is cut by the event time, which is null");
        return false;
      }
      const int64_t time = Now(in).column->ints[now.begin];
      const ValueRange times = Times(in).ValuesAt(row);
      for (int64_t i = 0; i < size; ++i) {
        if (InTime(Times(in).column->ints[times.begin + i], time)) kept->push_back(i);
      }
    } else {
      for (int64_t i = 0; i < size; ++i) kept->push_back(i);
    }
    const int64_t excess = static_cast<int64_t>(kept->size()) - options_.max_length();
    if (!options_.has_max_length() || excess <= 0) return true;
    auto first =
        options_.keep() == DeriveStep::Sequence::HEAD ? kept->end() - excess : kept->begin();
    kept->erase(first, first + excess);
    return true;
  }

  bool InTime(int64_t event, int64_t now) const {
    if (event > now) return false;
    const double age = static_cast<double>(now) - static_cast<double>(event);
    return !options_.has_within() || age <= options_.within();
  }

  const DeriveStep::Sequence options_;
  const int lists_;  // Columns that must be aligned: all but the row's event time.
};

}  // namespace

DerivationOr NewSequence(const DeriveStep& step, int inputs) {
  const DeriveStep::Sequence& options = step.sequence();
  RETURN_IF_ERROR(CheckInputs(inputs, options.timed() ? 3 : 1, 64));
  if (options.has_max_length() && options.max_length() < 1) {
    return absl::InvalidArgumentError("max_length must be 1 or more");
  }
  return std::make_unique<Sequence>(options, options.timed() ? inputs - 1 : inputs);
}

}  // namespace starling
