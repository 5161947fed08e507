// lookup: the values that a map (say, of the user) holds for the row's keys (say,
// the item's category). A key that is not in the map has none.
#include "base/status.h"
#include "sample_io/map_column.h"

namespace starling {
namespace {

class Lookup : public Derivation {
 public:
  explicit Lookup(const DeriveStep::Lookup& options)
      : separator_(options.separator()), found_values_(options.as_id(), options.combine()) {}

  absl::Status Derive(const DeriveInput& in, Derived* out, RowFaults* faults) const override {
    Column parsed;
    ASSIGN_OR_RETURN(const ColumnView map,
                     AsMap(in.columns[0], in.rows, separator_, &parsed, faults));
    const ColumnView& keys = in.columns[1];
    RETURN_IF_ERROR(CheckIds(*keys.column, "a key"));
    const Column& values = *map.column->items;
    RETURN_IF_ERROR(found_values_.Start(*map.column, values, out));
    std::vector<int64_t> found;
    for (int64_t row = 0; row < in.rows; ++row) {
      found.clear();
      const ValueRange entries = map.ValuesAt(row), wanted = keys.ValuesAt(row);
      for (int64_t i = wanted.begin; i < wanted.end; ++i) {
        const int64_t at = FindKey(*map.column, entries, *keys.column, i);
        if (at >= 0) found.push_back(at);
      }
      RETURN_IF_ERROR(found_values_.AddRow(*map.column, values, found, row, out, faults));
    }
    return absl::OkStatus();
  }

 private:
  const std::string separator_;
  const FoundValues found_values_;
};

}  // namespace

DerivationOr NewLookup(const DeriveStep& step, int inputs) {
  RETURN_IF_ERROR(CheckInputs(inputs, 2, 2));
  if (step.lookup().separator().empty()) {
    return absl::InvalidArgumentError("the separator is empty");
  }
  return std::make_unique<Lookup>(step.lookup());
}

}  // namespace starling
