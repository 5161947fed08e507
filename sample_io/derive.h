// Derived columns: what a feature is made from when no column of the data is
// used as it stands. A feature's steps (DeriveStep) run first, once a batch; the
// FeatureCompiler then treats the last result exactly as an `id` or `raw`
// column. So a kind of feature is one file with one Derivation, and one line in
// derive.cc.
//
// A derived column has one entry a row of the batch, in the batch's order (or a
// request, if all it comes from are columns of requests: feature_inputs.h), and
// may point into the columns it came from.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sample_io/columns.h"
#include "sample_io/data.pb.h"

namespace starling {

// A column as the rows of one batch see it.
struct ColumnView {
  const Column* column = nullptr;
  std::span<const int64_t> entries;  // The column's entry of each row; empty: row i is entry i.

  int64_t EntryOf(int64_t row) const { return entries.empty() ? row : entries[row]; }
  ValueRange ValuesAt(int64_t row) const { return ValuesOf(*column, EntryOf(row)); }
};

struct Derived {
  Column column;
  std::vector<float> weights;     // One a value; empty: all 1.
  std::deque<std::string> texts;  // Behind strings that stand in no column.
};

// The first thing wrong with each row of a batch.
class RowFaults {
 public:
  struct Fault {
    std::string column, reason;
  };
  void Add(int64_t row, const std::string& column, std::string reason) {
    faults_.try_emplace(row, Fault{column, std::move(reason)});
  }
  const Fault* Find(int64_t row) const {
    if (faults_.empty()) return nullptr;
    auto it = faults_.find(row);
    return it == faults_.end() ? nullptr : &it->second;
  }
  void Clear() { faults_.clear(); }
  bool empty() const { return faults_.empty(); }

 private:
  std::map<int64_t, Fault> faults_;
};

// What one step sees.
struct DeriveInput {
  int64_t rows = 0;
  std::vector<ColumnView> columns;
};

// A const object, used by any number of threads.
class Derivation {
 public:
  virtual ~Derivation() = default;
  // Fills `out`, which is empty, but for its name and rows. A value that cannot
  // be used is a fault of its row, which then may hold anything. FailedPrecondition,
  // naming the column, for a type that no row could satisfy.
  virtual absl::Status Derive(const DeriveInput& in, Derived* out, RowFaults* faults) const = 0;
};

// `inputs` columns will be given to Derive. InvalidArgument if the step's options
// are ones that a plan would never make.
using DerivationOr = absl::StatusOr<std::unique_ptr<Derivation>>;
DerivationOr NewDerivation(const DeriveStep& step, int inputs);

// The makers of all kinds, each in the file of its kind.
DerivationOr NewValues(const DeriveStep& step, int inputs);
DerivationOr NewBucketize(const DeriveStep& step, int inputs);
DerivationOr NewCombo(const DeriveStep& step, int inputs);
DerivationOr NewLookup(const DeriveStep& step, int inputs);
DerivationOr NewMatch(const DeriveStep& step, int inputs);
DerivationOr NewExpr(const DeriveStep& step, int inputs);
DerivationOr NewSequence(const DeriveStep& step, int inputs);
DerivationOr NewPool(const DeriveStep& step, int inputs);

// ---- What the kinds share ----

// InvalidArgument unless `inputs` is in least..most.
absl::Status CheckInputs(int inputs, int least, int most);

// FailedPrecondition "column c: a key must be …, but the column holds … values".
absl::Status WrongType(const Column& column, absl::string_view role, absl::string_view due);
// A column without a value satisfies every type: serving makes one up for an
// input that a request leaves out.
bool HasNoValue(const Column& column);
// These return WrongType unless the column holds numbers, or ids, scalar or in lists.
absl::Status CheckNumbers(const Column& column, absl::string_view role);
absl::Status CheckIds(const Column& column, absl::string_view role);

// REQUIRES: `column` holds numbers.
inline double NumberAt(const Column& column, int64_t i) {
  return column.type == ColumnType::kInt64 ? static_cast<double>(column.ints[i])
                                           : column.doubles[i];
}
// Value i of `from`, of the same type, as one more value of `to`.
void CopyValue(const Column& from, int64_t i, Column* to);

// Lists: starts one, and ends each row. FailedPrecondition past 2^31 values.
void StartLists(ColumnType type, Column* column);
absl::Status EndRow(Column* column);
// Scalars: one more row of a column of doubles; nothing is a null.
void PushNumber(std::optional<double> value, Column* column);

}  // namespace starling
