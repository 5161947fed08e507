// The text of a predicate as nodes, by recursive descent.
#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/charconv.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "sample_io/predicate.h"

namespace starling {

// `at_` stands on the first character not read yet.
class PredicateParser {
 public:
  explicit PredicateParser(absl::string_view text) : text_(text) {}

  absl::StatusOr<Predicate> Parse() {
    RETURN_IF_ERROR(Either());
    SkipSpace();
    if (at_ < text_.size()) return Error(at_, absl::StrCat("`", Rest(), "` is left over"));
    return std::move(out_);
  }

 private:
  using Op = Predicate::Op;
  using Literal = Predicate::Literal;
  static constexpr int kNestingMax = 64;
  static constexpr size_t kNodesMax = 4096;

  static absl::Status Error(size_t at, absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("character ", at + 1, ": ", what));
  }
  std::string Rest() const { return std::string(text_.substr(at_, 20)); }
  void SkipSpace() {
    while (at_ < text_.size() && absl::ascii_isspace(text_[at_])) ++at_;
  }
  static bool IsWordChar(char c) { return absl::ascii_isalnum(c) || c == '_' || c == '.'; }
  bool Take(absl::string_view token) {
    SkipSpace();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  // The letters, digits, `_` and `.` that come next; not read yet.
  absl::string_view Word() {
    SkipSpace();
    size_t end = at_;
    while (end < text_.size() && IsWordChar(text_[end])) ++end;
    return text_.substr(at_, end - at_);
  }
  bool TakeWord(absl::string_view word) {
    if (!absl::EqualsIgnoreCase(Word(), word)) return false;
    at_ += word.size();
    return true;
  }

  int Last() const { return static_cast<int>(out_.nodes_.size()) - 1; }
  absl::Status Emit(Predicate::Node node) {
    out_.nodes_.push_back(std::move(node));
    return out_.nodes_.size() <= kNodesMax ? absl::OkStatus()
                                           : Error(at_, "the predicate is too long");
  }
  absl::Status Negate() { return Emit({.op = Op::kNot, .left = Last()}); }

  absl::Status Either() {
    if (++nesting_ > kNestingMax) return Error(at_, "the predicate is too deep");
    RETURN_IF_ERROR(All());
    while (TakeWord("or")) {
      const int left = Last();
      RETURN_IF_ERROR(All());
      RETURN_IF_ERROR(Emit({.op = Op::kOr, .left = left, .right = Last()}));
    }
    --nesting_;
    return absl::OkStatus();
  }

  absl::Status All() {
    RETURN_IF_ERROR(Unary());
    while (TakeWord("and")) {
      const int left = Last();
      RETURN_IF_ERROR(Unary());
      RETURN_IF_ERROR(Emit({.op = Op::kAnd, .left = left, .right = Last()}));
    }
    return absl::OkStatus();
  }

  absl::Status Unary() {
    bool negative = false;
    while (TakeWord("not")) negative = !negative;
    const size_t begin = at_;
    if (Take("(")) {
      RETURN_IF_ERROR(Either());
      if (!Take(")"))
        return Error(at_, absl::StrCat("the `(` of character ", begin + 1, " is not closed"));
    } else {
      RETURN_IF_ERROR(Comparison());
    }
    return negative ? Negate() : absl::OkStatus();
  }

  absl::Status Comparison() {
    ASSIGN_OR_RETURN(const int column, Column());
    if (TakeWord("is")) {
      const bool negative = TakeWord("not");
      if (!TakeWord("null")) return Error(at_, "`is` must be followed by `null` or `not null`");
      RETURN_IF_ERROR(Emit({.op = Op::kIsNull, .column = column}));
      return negative ? Negate() : absl::OkStatus();
    }
    const bool negative = TakeWord("not");
    if (TakeWord("in")) {
      RETURN_IF_ERROR(In(column));
      return negative ? Negate() : absl::OkStatus();
    }
    if (negative) return Error(at_, "`not` behind a column must be followed by `in`");
    static constexpr std::pair<absl::string_view, Op> kOps[] = {
        {"<=", Op::kLessEqual}, {">=", Op::kMoreEqual}, {"==", Op::kEqual}, {"!=", Op::kNot},
        {"<>", Op::kNot},       {"=", Op::kEqual},      {"<", Op::kLess},   {">", Op::kMore}};
    for (const auto& [token, op] : kOps) {
      if (!Take(token)) continue;
      ASSIGN_OR_RETURN(Literal literal, Value());
      const bool unequal = op == Op::kNot;
      RETURN_IF_ERROR(Emit({unequal ? Op::kEqual : op, -1, -1, column, {std::move(literal)}}));
      return unequal ? Negate() : absl::OkStatus();
    }
    return Error(at_, "a comparison is missing: =, !=, <, <=, >, >=, in or is");
  }

  absl::Status In(int column) {
    Predicate::Node node = {.op = Op::kIn, .column = column};
    if (!Take("(")) return Error(at_, "`in` must be followed by `(`");
    do {
      ASSIGN_OR_RETURN(Literal literal, Value());
      node.literals.push_back(std::move(literal));
    } while (Take(","));
    if (!Take(")")) return Error(at_, "the `(` of `in` is not closed");
    return Emit(std::move(node));
  }

  absl::StatusOr<int> Column() {
    absl::string_view name = Word();
    const size_t begin = at_;
    at_ += name.size();
    if (name.empty() && Take("`")) {
      const size_t end = text_.find('`', at_);
      if (end == absl::string_view::npos || end == at_) {
        return Error(begin, "a column in backquotes is `name`");
      }
      name = text_.substr(at_, end - at_);
      at_ = end + 1;
    } else if (name.empty() || absl::ascii_isdigit(name[0])) {
      at_ = begin;
      return Error(at_, absl::StrCat("a column must stand here, not `", Rest(), "`"));
    }
    std::vector<std::string>& columns = out_.columns_;
    const auto it = std::find(columns.begin(), columns.end(), name);
    const int column = static_cast<int>(it - columns.begin());
    if (it == columns.end()) columns.emplace_back(name);
    return column;
  }

  absl::StatusOr<Literal> Value() {
    SkipSpace();
    const size_t begin = at_;
    if (Take("'")) return Text(begin);
    if (TakeWord("true")) return Literal{.number = 1};
    if (TakeWord("false")) return Literal{.number = 0};
    const bool negative = Take("-");
    const absl::string_view word = Word();
    uint64_t integer = 0;
    if (absl::SimpleAtoi(word, &integer)) {
      at_ += word.size();
      const auto number = static_cast<long double>(integer);
      return Literal{.number = negative ? -number : number};
    }
    double number = 0;
    const auto end = absl::from_chars(text_.data() + at_, text_.data() + text_.size(), number);
    if (word.empty() || end.ec != std::errc() || !absl::ascii_isalnum(*(end.ptr - 1)) ||
        absl::ascii_isalpha(word[0])) {
      return Error(begin, absl::StrCat("a number or 'text' must stand here, not `",
                                       text_.substr(begin, 20), "`"));
    }
    at_ = end.ptr - text_.data();
    return Literal{.number = negative ? -number : number};
  }

  absl::StatusOr<Literal> Text(size_t begin) {
    Literal literal = {.is_text = true};
    while (true) {
      const size_t end = text_.find('\'', at_);
      if (end == absl::string_view::npos) return Error(begin, "the quote is not closed");
      absl::StrAppend(&literal.text, text_.substr(at_, end - at_));
      at_ = end + 1;
      if (at_ == text_.size() || text_[at_] != '\'') return literal;
      literal.text += '\'';
      ++at_;
    }
  }

  const absl::string_view text_;
  size_t at_ = 0;
  int nesting_ = 0;  // Of parentheses: bounds our own recursion.
  Predicate out_;
};

absl::StatusOr<Predicate> Predicate::Parse(absl::string_view text) {
  return PredicateParser(text).Parse();
}

}  // namespace starling
