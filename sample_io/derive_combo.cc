// combo: the cross of 2..4 columns. The value of one combination is the hash of
// its parts in order, each seeding the next, as of Spark's xxhash64(a, b); it is
// then hashed like any integer. Frozen: rows of tables depend on it.
#include <algorithm>

#include "base/hash.h"
#include "base/status.h"
#include "sample_io/derive.h"

namespace starling {
namespace {

constexpr uint64_t kSeed = 42;

class Combo : public Derivation {
 public:
  explicit Combo(int max_length) : max_length_(max_length) {}

  absl::Status Derive(const DeriveInput& in, Derived* out, RowFaults*) const override {
    for (const ColumnView& part : in.columns) {
      RETURN_IF_ERROR(CheckIds(*part.column, "a part of a combo"));
    }
    StartLists(ColumnType::kInt64, &out->column);
    for (int64_t row = 0; row < in.rows; ++row) {
      Cross(in, row, 0, kSeed, out->column.ints.size() + max_length_, &out->column.ints);
      RETURN_IF_ERROR(EndRow(&out->column));
    }
    return absl::OkStatus();
  }

 private:
  // All combinations of the parts from `part` on, the last part turning
  // fastest, until there are `most` values. A part without a value has none.
  static void Cross(const DeriveInput& in, int64_t row, size_t part, uint64_t hash, size_t most,
                    std::vector<int64_t>* out) {
    if (part == in.columns.size()) return out->push_back(static_cast<int64_t>(hash));
    const Column& column = *in.columns[part].column;
    const ValueRange values = in.columns[part].ValuesAt(row);
    for (int64_t i = values.begin; i < values.end && out->size() < most; ++i) {
      const uint64_t next = column.type == ColumnType::kInt64 ? HashInt64(column.ints[i], hash)
                                                              : HashBytes(column.strings[i], hash);
      Cross(in, row, part + 1, next, most, out);
    }
  }

  const int max_length_;
};

}  // namespace

DerivationOr NewCombo(const DeriveStep& step, int inputs) {
  RETURN_IF_ERROR(CheckInputs(inputs, 2, 4));
  if (step.combo().max_length() < 1) {
    return absl::InvalidArgumentError("max_length must be 1 or more");
  }
  return std::make_unique<Combo>(step.combo().max_length());
}

}  // namespace starling
