// Expression: arithmetic on numeric columns, parsed once and run a row at a time.
//
//   + - * /  - x  ( )  < <= > >= == !=     a comparison is 1 or 0
//   min(a, b, …)  max(a, b, …)  log  log1p  exp  sqrt  abs  floor
//   if(c, a, b)                            a if c is not 0, else b
//
// A name is letters, digits, `_` and `.`; any other column stands in backquotes.
// Numbers are IEEE doubles: 1 / 0 is infinite and log(-1) is NaN, which no raw
// feature takes, unless an `if` leaves them out.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace starling {

class Expression {
 public:
  // InvalidArgument "character 7: …", counted from 1, for what is no expression.
  static absl::StatusOr<Expression> Parse(absl::string_view text);

  // The columns it reads, in the order of their first use. Never empty.
  const std::vector<std::string>& columns() const { return columns_; }
  // REQUIRES: one value for each of columns().
  double Run(std::span<const double> values) const;

 private:
  friend class ExpressionParser;
  enum class Op {
    kNumber,
    kColumn,
    kNegate,
    kAdd,
    kSubtract,
    kMultiply,
    kDivide,
    kLess,
    kLessEqual,
    kMore,
    kMoreEqual,
    kEqual,
    kNotEqual,
    kMin,
    kMax,
    kLog,
    kLog1p,
    kExp,
    kSqrt,
    kAbs,
    kFloor,
    kIf,
  };
  // A step of a stack machine: pops its operands, pushes its result.
  struct Step {
    Op op;
    double number = 0;
    int column = 0;
  };
  static constexpr int kStackMax = 64;
  static double Unary(Op op, double a);
  static double Binary(Op op, double a, double b);

  std::vector<std::string> columns_;
  std::vector<Step> steps_;
};

}  // namespace starling
