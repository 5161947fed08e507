#include "sample_io/predicate.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/status.h"
#include "sample_io/source.h"

namespace starling {
namespace {

constexpr uint8_t kTrue = 1, kFalse = 2, kUnknown = 4;
constexpr uint8_t kOutcomes[] = {kTrue, kFalse, kUnknown};

uint8_t Not(uint8_t a) { return a == kTrue ? kFalse : a == kFalse ? kTrue : kUnknown; }
uint8_t And(uint8_t a, uint8_t b) {
  if (a == kFalse || b == kFalse) return kFalse;
  return a == kTrue && b == kTrue ? kTrue : kUnknown;
}
uint8_t Or(uint8_t a, uint8_t b) { return Not(And(Not(a), Not(b))); }

// A function of single outcomes, applied to sets of them.
template <typename Function>
uint8_t Combine(uint8_t left, uint8_t right, const Function& function) {
  uint8_t out = 0;
  for (uint8_t a : kOutcomes) {
    for (uint8_t b : kOutcomes) {
      if ((left & a) && (right & b)) out |= function(a, b);
    }
  }
  return out;
}

template <typename T, typename U>
int Order(const T& a, const U& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

absl::StatusOr<long double> ParseTime(const std::string& text) {
  absl::Time time;
  std::string why;
  for (const char* format : {"%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S"}) {
    if (absl::ParseTime(format, text, absl::UTCTimeZone(), &time, &why)) {
      return static_cast<long double>(absl::ToUnixSeconds(time));
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is no time; write '2026-08-01' or '2026-08-01T10:00:00'"));
}

}  // namespace

ValueBounds ValueBounds::Exactly(const Column& value) {
  ValueBounds bounds;
  const bool null = value.IsNull(0);
  bounds.nulls_possible = null;
  bounds.nans_possible = false;
  bounds.values_possible = !null;
  if (null) return bounds;
  bounds.known = true;
  bounds.is_text = value.type == ColumnType::kString;
  if (bounds.is_text) {
    bounds.min_text = bounds.max_text = std::string(value.strings[0]);
  } else {
    bounds.min = bounds.max = static_cast<long double>(value.ints[0]);
  }
  return bounds;
}

absl::Status Predicate::Bind(const std::vector<ColumnSchema>& schema) {
  kinds_.clear();
  for (const std::string& name : columns_) {
    auto found = std::find_if(schema.begin(), schema.end(),
                              [&](const ColumnSchema& column) { return column.name == name; });
    if (found == schema.end()) {
      return absl::InvalidArgumentError(absl::StrCat("the data has no column ", name));
    }
    std::string type = found->type;
    if (absl::StartsWith(type, "dictionary<values=")) type = type.substr(18);
    auto starts = [&](std::initializer_list<absl::string_view> heads) {
      return std::any_of(heads.begin(), heads.end(),
                         [&](auto head) { return absl::StartsWith(type, head); });
    };
    if (starts({"uint64"})) {
      kinds_.push_back(Kind::kUnsigned);
    } else if (starts({"int", "uint", "bool", "float", "double", "halffloat", "decimal"})) {
      kinds_.push_back(Kind::kNumber);
    } else if (starts({"date", "timestamp"})) {
      kinds_.push_back(Kind::kTime);
    } else if (starts({"string", "large_string", "binary", "large_binary", "fixed_size_binary"})) {
      kinds_.push_back(Kind::kText);
    } else if (starts({"null"})) {
      kinds_.push_back(Kind::kAny);
    } else {
      return absl::InvalidArgumentError(absl::StrCat(
          "column ", name, " is ", type, "; only columns with one value a row can be compared"));
    }
    if (found->in_list) {
      return absl::InvalidArgumentError(absl::StrCat(
          "column ", name, " has several values a row of the file, one an impression"));
    }
  }
  for (Node& node : nodes_) {
    for (Literal& literal : node.literals) {
      const Kind kind = kinds_[node.column];
      if (kind == Kind::kTime && literal.is_text) {
        auto time = ParseTime(literal.text);
        if (!time.ok()) return Annotate(time.status(), "column " + columns_[node.column]);
        literal = {.number = *time};
      }
      if (kind == Kind::kAny || literal.is_text == (kind == Kind::kText)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("column ", columns_[node.column], " holds ",
                       literal.is_text ? "numbers" : "text", ", but is compared with ",
                       literal.is_text ? "the text '" + literal.text + "'" : "a number",
                       literal.is_text ? "" : "; write it in single quotes"));
    }
  }
  return absl::OkStatus();
}

bool Predicate::Compare(Op op, int order) {
  switch (op) {
    case Op::kLess:
      return order < 0;
    case Op::kLessEqual:
      return order <= 0;
    case Op::kMore:
      return order > 0;
    case Op::kMoreEqual:
      return order >= 0;
    default:
      return order == 0;
  }
}

// ---- Rows ----

void Predicate::Run(const Node& node, const Column& column, std::vector<uint8_t>* truths) const {
  const bool is_double = column.type == ColumnType::kDouble;
  const bool is_unsigned = kinds_[node.column] == Kind::kUnsigned;
  auto number = [&](int64_t row) -> long double {
    if (is_double) return column.doubles[row];
    return is_unsigned ? static_cast<long double>(static_cast<uint64_t>(column.ints[row]))
                       : static_cast<long double>(column.ints[row]);
  };
  for (size_t i = 0; i < truths->size(); ++i) {
    const auto row = static_cast<int64_t>(i);
    const bool null = column.IsNull(row) || (is_double && std::isnan(column.doubles[row]));
    uint8_t& truth = (*truths)[i];
    if (null || node.op == Op::kIsNull) {
      truth = node.op != Op::kIsNull ? kUnknown : null ? kTrue : kFalse;
      continue;
    }
    truth = kFalse;
    for (const Literal& literal : node.literals) {
      const int order = literal.is_text ? Order(column.strings[row], literal.text)
                                        : Order(number(row), literal.number);
      if (Compare(node.op, order)) truth = kTrue;
    }
  }
}

std::vector<int64_t> Predicate::Matching(std::span<const Column> columns, int64_t rows) const {
  std::vector<std::vector<uint8_t>> truths(nodes_.size());
  for (size_t n = 0; n < nodes_.size(); ++n) {
    const Node& node = nodes_[n];
    std::vector<uint8_t>& out = truths[n];
    if (node.column >= 0) {
      out.resize(rows);
      Run(node, columns[node.column], &out);
      continue;
    }
    out = std::move(truths[node.left]);
    for (int64_t i = 0; i < rows; ++i) {
      if (node.op == Op::kNot) {
        out[i] = Not(out[i]);
      } else {
        const uint8_t right = truths[node.right][i];
        out[i] = node.op == Op::kAnd ? And(out[i], right) : Or(out[i], right);
      }
    }
    if (node.right >= 0) truths[node.right] = {};
  }
  std::vector<int64_t> matching;
  for (int64_t i = 0; i < rows; ++i) {
    if (truths.back()[i] == kTrue) matching.push_back(i);
  }
  return matching;
}

// ---- Bounds ----

// Of a value that is neither null nor NaN.
Predicate::Outcomes Predicate::PossibleWithin(Op op, const Literal& literal,
                                              const ValueBounds& bounds) const {
  if (!bounds.known || bounds.is_text != literal.is_text) return kTrue | kFalse;
  const int low =
      literal.is_text ? Order(bounds.min_text, literal.text) : Order(bounds.min, literal.number);
  const int high =
      literal.is_text ? Order(bounds.max_text, literal.text) : Order(bounds.max, literal.number);
  Outcomes out = 0;
  for (int order :
       {-1, 0, 1}) {  // Of a value to the literal; all between the limits' are possible.
    if (order >= low && order <= high) out |= Compare(op, order) ? kTrue : kFalse;
  }
  return out;
}

Predicate::Outcomes Predicate::Possible(const Node& node, const ValueBounds& bounds) const {
  if (node.op == Op::kIsNull) {
    const bool null = bounds.nulls_possible || bounds.nans_possible;
    return (null ? kTrue : 0) | (bounds.values_possible ? kFalse : 0);
  }
  if (!bounds.values_possible) return kUnknown;
  Outcomes any = kFalse;
  for (const Literal& literal : node.literals) {
    any = Combine(any, PossibleWithin(node.op, literal, bounds), Or);
  }
  return any | kUnknown;  // Whether there are nulls is not worth a difference.
}

bool Predicate::MayMatch(std::span<const ValueBounds> bounds) const {
  std::vector<Outcomes> possible(nodes_.size());
  for (size_t n = 0; n < nodes_.size(); ++n) {
    const Node& node = nodes_[n];
    if (node.column >= 0) {
      possible[n] = Possible(node, bounds[node.column]);
    } else if (node.op == Op::kNot) {
      possible[n] = Combine(possible[node.left], kTrue, [](auto a, auto) { return Not(a); });
    } else {
      possible[n] =
          Combine(possible[node.left], possible[node.right], node.op == Op::kAnd ? And : Or);
    }
  }
  return possible.back() & kTrue;
}

}  // namespace starling
