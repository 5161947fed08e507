// expr: arithmetic on numeric columns. A null among them makes the result null.
#include "base/status.h"
#include "sample_io/derive.h"
#include "sample_io/expression.h"

namespace starling {
namespace {

class Expr : public Derivation {
 public:
  explicit Expr(Expression expression) : expression_(std::move(expression)) {}

  absl::Status Derive(const DeriveInput& in, Derived* out, RowFaults*) const override {
    for (const ColumnView& view : in.columns) {
      if (view.column->is_list && !HasNoValue(*view.column)) {
        return WrongType(*view.column, "a column of an expression", "a number");
      }
      RETURN_IF_ERROR(CheckNumbers(*view.column, "a column of an expression"));
    }
    std::vector<double> values(in.columns.size());
    for (int64_t row = 0; row < in.rows; ++row) {
      if (Gather(in, row, values)) {
        PushNumber(expression_.Run(values), &out->column);
      } else {
        PushNumber(std::nullopt, &out->column);
      }
    }
    return absl::OkStatus();
  }

 private:
  // False if one of them is null.
  static bool Gather(const DeriveInput& in, int64_t row, std::span<double> values) {
    for (size_t c = 0; c < values.size(); ++c) {
      const ValueRange value = in.columns[c].ValuesAt(row);
      if (value.size() == 0) return false;
      values[c] = NumberAt(*in.columns[c].column, value.begin);
    }
    return true;
  }

  const Expression expression_;
};

}  // namespace

DerivationOr NewExpr(const DeriveStep& step, int inputs) {
  ASSIGN_OR_RETURN(Expression expression, Expression::Parse(step.expr().text()));
  const int due = static_cast<int>(expression.columns().size());
  RETURN_IF_ERROR(CheckInputs(inputs, due, due));
  return std::make_unique<Expr>(std::move(expression));
}

}  // namespace starling
