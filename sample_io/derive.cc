#include "sample_io/derive.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"

namespace starling {
namespace {

struct Kind {
  DeriveStep::KindCase kind;
  DerivationOr (*make)(const DeriveStep& step, int inputs);
};
constexpr Kind kKinds[] = {
    {DeriveStep::kValues, NewValues},     {DeriveStep::kBucketize, NewBucketize},
    {DeriveStep::kCombo, NewCombo},       {DeriveStep::kLookup, NewLookup},
    {DeriveStep::kMatch, NewMatch},       {DeriveStep::kExpr, NewExpr},
    {DeriveStep::kSequence, NewSequence}, {DeriveStep::kPool, NewPool},
};

}  // namespace

DerivationOr NewDerivation(const DeriveStep& step, int inputs) {
  for (const Kind& kind : kKinds) {
    if (kind.kind == step.kind_case()) return kind.make(step, inputs);
  }
  return absl::InvalidArgumentError("a step of a kind that this version does not know");
}

absl::Status CheckInputs(int inputs, int least, int most) {
  if (inputs >= least && inputs <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a step reads ", inputs, " columns, not ", least, "..", most));
}

absl::Status WrongType(const Column& column, absl::string_view role, absl::string_view due) {
  return absl::FailedPreconditionError(absl::StrCat("column ", column.name, ": ", role, " must be ",
                                                    due, ", but the column holds ",
                                                    ColumnTypeName(column), " values"));
}

bool HasNoValue(const Column& column) {
  if (column.rows > 0 && column.valid.empty()) return false;
  return std::find(column.valid.begin(), column.valid.end(), 1) == column.valid.end();
}

absl::Status CheckNumbers(const Column& column, absl::string_view role) {
  const bool number = column.type != ColumnType::kString && column.items == nullptr;
  if (number || HasNoValue(column)) return absl::OkStatus();
  return WrongType(column, role, "numbers");
}

absl::Status CheckIds(const Column& column, absl::string_view role) {
  const bool ids = column.type != ColumnType::kDouble && column.items == nullptr;
  if (ids || HasNoValue(column)) return absl::OkStatus();
  return WrongType(column, role, "integers or strings, or lists of these");
}

void CopyValue(const Column& from, int64_t i, Column* to) {
  switch (from.type) {
    case ColumnType::kInt64:
      return to->ints.push_back(from.ints[i]);
    case ColumnType::kDouble:
      return to->doubles.push_back(from.doubles[i]);
    case ColumnType::kString:
      return to->strings.push_back(from.strings[i]);
  }
}

void StartLists(ColumnType type, Column* column) {
  column->type = type;
  column->is_list = true;
  column->list_offsets.assign(1, 0);
}

absl::Status EndRow(Column* column) {
  const size_t values = column->ints.size() + column->doubles.size() + column->strings.size();
  if (values > std::numeric_limits<int32_t>::max()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "feature ", column->name, ": more than 2^31 values in one batch; use smaller batches"));
  }
  column->list_offsets.push_back(static_cast<int32_t>(values));
  return absl::OkStatus();
}

void PushNumber(std::optional<double> value, Column* column) {
  column->type = ColumnType::kDouble;
  if (!value) column->valid.resize(column->doubles.size(), 1);
  if (!value || !column->valid.empty()) column->valid.push_back(value.has_value());
  column->doubles.push_back(value.value_or(0));
}

}  // namespace starling
