#include "sample_io/expression.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/charconv.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace starling {

// Recursive descent, from the loosest binding to the tightest. `at_` stands on
// the first character not read yet.
class ExpressionParser {
 public:
  explicit ExpressionParser(absl::string_view text) : text_(text) {}

  absl::StatusOr<Expression> Parse() {
    RETURN_IF_ERROR(Comparison());
    SkipSpace();
    if (at_ < text_.size()) return Error(at_, absl::StrCat("`", Rest(), "` is left over"));
    if (out_.columns_.empty()) return Error(0, "it reads no column");
    return std::move(out_);
  }

 private:
  using Op = Expression::Op;

  struct Function {
    absl::string_view name;
    Op op;
    int least, most;  // Arguments.
  };
  static constexpr int kManyArguments = 16;
  static constexpr Function kFunctions[] = {
      {"min", Op::kMin, 2, kManyArguments},
      {"max", Op::kMax, 2, kManyArguments},
      {"log", Op::kLog, 1, 1},
      {"log1p", Op::kLog1p, 1, 1},
      {"exp", Op::kExp, 1, 1},
      {"sqrt", Op::kSqrt, 1, 1},
      {"abs", Op::kAbs, 1, 1},
      {"floor", Op::kFloor, 1, 1},
      {"if", Op::kIf, 3, 3},
  };

  static absl::Status Error(size_t at, absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("character ", at + 1, ": ", what));
  }
  std::string Rest() const { return std::string(text_.substr(at_, 20)); }
  void SkipSpace() {
    while (at_ < text_.size() && absl::ascii_isspace(text_[at_])) ++at_;
  }
  // Reads `token` if it comes next.
  bool Take(absl::string_view token) {
    SkipSpace();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }

  // `operands` are popped, one result is pushed.
  absl::Status Emit(Expression::Step step, int operands) {
    depth_ += 1 - operands;
    out_.steps_.push_back(step);
    if (depth_ <= Expression::kStackMax) return absl::OkStatus();
    return Error(at_, "the expression is too deep");
  }

  absl::Status Comparison() {
    static constexpr std::pair<absl::string_view, Op> kOps[] = {
        {"<=", Op::kLessEqual}, {">=", Op::kMoreEqual}, {"==", Op::kEqual},
        {"!=", Op::kNotEqual},  {"<", Op::kLess},       {">", Op::kMore}};
    if (++nesting_ > Expression::kStackMax) return Error(at_, "the expression is too deep");
    RETURN_IF_ERROR(Sum());
    for (const auto& [token, op] : kOps) {
      if (!Take(token)) continue;
      RETURN_IF_ERROR(Sum());
      RETURN_IF_ERROR(Emit({op}, 2));
      break;
    }
    --nesting_;
    return absl::OkStatus();
  }

  absl::Status Sum() {
    RETURN_IF_ERROR(Product());
    while (true) {
      const Op op = Take("+") ? Op::kAdd : Take("-") ? Op::kSubtract : Op::kNumber;
      if (op == Op::kNumber) return absl::OkStatus();
      RETURN_IF_ERROR(Product());
      RETURN_IF_ERROR(Emit({op}, 2));
    }
  }

  absl::Status Product() {
    RETURN_IF_ERROR(Signed());
    while (true) {
      const Op op = Take("*") ? Op::kMultiply : Take("/") ? Op::kDivide : Op::kNumber;
      if (op == Op::kNumber) return absl::OkStatus();
      RETURN_IF_ERROR(Signed());
      RETURN_IF_ERROR(Emit({op}, 2));
    }
  }

  absl::Status Signed() {
    bool negative = false;
    while (Take("-")) negative = !negative;
    RETURN_IF_ERROR(Primary());
    return negative ? Emit({Op::kNegate}, 1) : absl::OkStatus();
  }

  absl::Status Primary() {
    SkipSpace();
    if (at_ == text_.size()) return Error(at_, "a number, a column or `(` is missing");
    const size_t begin = at_;
    if (Take("(")) {
      RETURN_IF_ERROR(Comparison());
      return Take(")")
                 ? absl::OkStatus()
                 : Error(at_, absl::StrCat("the `(` of character ", begin + 1, " is not closed"));
    }
    if (absl::ascii_isdigit(text_[at_]) || text_[at_] == '.') return Number();
    if (Take("`")) return QuotedColumn(begin);
    while (at_ < text_.size() &&
           (absl::ascii_isalnum(text_[at_]) || text_[at_] == '_' || text_[at_] == '.')) {
      ++at_;
    }
    if (at_ == begin) return Error(at_, absl::StrCat("`", Rest(), "` is no part of an expression"));
    const absl::string_view name = text_.substr(begin, at_ - begin);
    return Take("(") ? Call(name, begin) : Column(name);
  }

  absl::Status Number() {
    double number = 0;
    const auto end = absl::from_chars(text_.data() + at_, text_.data() + text_.size(), number);
    if (end.ec != std::errc()) return Error(at_, absl::StrCat("`", Rest(), "` is no number"));
    at_ = end.ptr - text_.data();
    return Emit({Op::kNumber, number}, 0);
  }

  absl::Status QuotedColumn(size_t begin) {
    const size_t end = text_.find('`', at_);
    if (end == absl::string_view::npos || end == at_) {
      return Error(begin, "a column in backquotes is `name`");
    }
    const absl::string_view name = text_.substr(at_, end - at_);
    at_ = end + 1;
    return Column(name);
  }

  absl::Status Column(absl::string_view name) {
    std::vector<std::string>& columns = out_.columns_;
    const auto it = std::find(columns.begin(), columns.end(), name);
    const int column = static_cast<int>(it - columns.begin());
    if (it == columns.end()) columns.emplace_back(name);
    return Emit({Op::kColumn, 0, column}, 0);
  }

  // Stands behind the `(` of a function.
  absl::Status Call(absl::string_view name, size_t begin) {
    const Function* function = nullptr;
    for (const Function& f : kFunctions) {
      if (f.name == name) function = &f;
    }
    if (function == nullptr) return Error(begin, absl::StrCat("there is no function ", name));
    int arguments = 0;
    do {
      RETURN_IF_ERROR(Comparison());
      // min(a, b, c) is min(min(a, b), c).
      if (++arguments > 1 && function->op != Op::kIf) RETURN_IF_ERROR(Emit({function->op}, 2));
      if (arguments > function->most) break;
    } while (Take(","));
    if (arguments < function->least || arguments > function->most) {
      return Error(begin, absl::StrCat(name, " takes ", function->least,
                                       function->most > function->least ? " or more" : "",
                                       function->most == 1 ? " argument" : " arguments"));
    }
    if (!Take(")")) return Error(at_, absl::StrCat("the `(` of ", name, " is not closed"));
    if (function->op == Op::kIf) return Emit({Op::kIf}, 3);
    return function->most == 1 ? Emit({function->op}, 1) : absl::OkStatus();
  }

  const absl::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;    // Of the stack, after the steps so far.
  int nesting_ = 0;  // Of parentheses and calls: bounds our own recursion.
  Expression out_;
};

absl::StatusOr<Expression> Expression::Parse(absl::string_view text) {
  return ExpressionParser(text).Parse();
}

double Expression::Unary(Op op, double a) {
  switch (op) {
    case Op::kNegate:
      return -a;
    case Op::kLog:
      return std::log(a);
    case Op::kLog1p:
      return std::log1p(a);
    case Op::kExp:
      return std::exp(a);
    case Op::kSqrt:
      return std::sqrt(a);
    case Op::kAbs:
      return std::fabs(a);
    default:
      return std::floor(a);
  }
}

double Expression::Binary(Op op, double a, double b) {
  switch (op) {
    case Op::kAdd:
      return a + b;
    case Op::kSubtract:
      return a - b;
    case Op::kMultiply:
      return a * b;
    case Op::kDivide:
      return a / b;
    case Op::kLess:
      return a < b;
    case Op::kLessEqual:
      return a <= b;
    case Op::kMore:
      return a > b;
    case Op::kMoreEqual:
      return a >= b;
    case Op::kEqual:
      return a == b;
    case Op::kNotEqual:
      return a != b;
    case Op::kMin:
      return std::min(a, b);
    default:
      return std::max(a, b);
  }
}

double Expression::Run(std::span<const double> values) const {
  std::array<double, kStackMax + 1> stack;
  size_t top = 0;  // Values on the stack.
  for (const Step& step : steps_) {
    if (step.op == Op::kNumber) {
      stack[top++] = step.number;
    } else if (step.op == Op::kColumn) {
      stack[top++] = values[step.column];
    } else if (step.op == Op::kIf) {
      top -= 2;
      stack[top - 1] = stack[top - 1] != 0 ? stack[top] : stack[top + 1];
    } else if (step.op == Op::kNegate || step.op >= Op::kLog) {
      stack[top - 1] = Unary(step.op, stack[top - 1]);
    } else {
      --top;
      stack[top - 1] = Binary(step.op, stack[top - 1], stack[top]);
    }
  }
  return stack[0];
}

}  // namespace starling
