// match: the values that a map of maps holds for the row's primary and
// secondary keys. A pair that is not there has none.
#include "base/status.h"
#include "sample_io/map_column.h"

namespace starling {
namespace {

class Match : public Derivation {
 public:
  explicit Match(const DeriveStep::Match& options)
      : found_values_(options.as_id(), options.combine()) {}

  absl::Status Derive(const DeriveInput& in, Derived* out, RowFaults* faults) const override {
    Column parsed;
    ASSIGN_OR_RETURN(const ColumnView map, AsNestedMap(in.columns[0], in.rows, &parsed, faults));
    RETURN_IF_ERROR(CheckIds(*in.columns[1].column, "a primary key"));
    RETURN_IF_ERROR(CheckIds(*in.columns[2].column, "a secondary key"));
    const Column& values = *map.column->items->items;
    RETURN_IF_ERROR(found_values_.Start(*map.column, values, out));
    std::vector<int64_t> found;
    for (int64_t row = 0; row < in.rows; ++row) {
      found.clear();
      FindPairs(map, in.columns[1], in.columns[2], row, &found);
      RETURN_IF_ERROR(found_values_.AddRow(*map.column, values, found, row, out, faults));
    }
    return absl::OkStatus();
  }

 private:
  // In the order of primary keys, then of secondary ones.
  static void FindPairs(const ColumnView& map, const ColumnView& primary,
                        const ColumnView& secondary, int64_t row, std::vector<int64_t>* found) {
    const Column& inner = *map.column->items;
    const ValueRange groups = map.ValuesAt(row), first = primary.ValuesAt(row),
                     second = secondary.ValuesAt(row);
    for (int64_t p = first.begin; p < first.end; ++p) {
      const int64_t group = FindKey(*map.column, groups, *primary.column, p);
      if (group < 0) continue;
      for (int64_t s = second.begin; s < second.end; ++s) {
        const int64_t at = FindKey(inner, ValuesOf(inner, group), *secondary.column, s);
        if (at >= 0) found->push_back(at);
      }
    }
  }

  const FoundValues found_values_;
};

}  // namespace

DerivationOr NewMatch(const DeriveStep& step, int inputs) {
  RETURN_IF_ERROR(CheckInputs(inputs, 3, 3));
  return std::make_unique<Match>(step.match());
}

}  // namespace starling
