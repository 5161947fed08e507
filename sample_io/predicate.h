// Predicate: which rows of the data are read. `country = 'US' and ds >= 20260801`
//
//   a = 1   a == 1   a != 1   a <> 1   <  <=  >  >=
//   a in (1, 2)   a not in ('x', 'y')   a is null   a is not null
//   not p   p and q   p or q   ( p )
//
// The left side is a column: letters, digits, `_` and `.`, any other in
// backquotes. A literal is a number, true, false, or text in single quotes, two of
// which stand for one. Words may be in capitals. A time is text, '2026-08-01' or
// '2026-08-01T10:00:00', or seconds since 1970.
//
// Logic is SQL's: a comparison with a null is unknown, and a row is read if the
// whole is true. A NaN counts as a null. Numbers are compared exactly, whatever
// their types; text byte by byte.
//
// A const object once bound: any number of threads may use it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "sample_io/columns.h"

namespace starling {

struct ColumnSchema;

// What is known of the values of a column in a part of a file, without reading
// them. All that it leaves open is possible.
struct ValueBounds {
  bool known = false;    // The limits below hold for every value but NaN.
  bool is_text = false;  // Which of these.
  long double min = 0, max = 0;
  std::string min_text, max_text;
  bool nulls_possible = true, nans_possible = true, values_possible = true;

  static ValueBounds Exactly(const Column& value);  // Of its first row.
};

class Predicate {
 public:
  // InvalidArgument "character 7: …", counted from 1, for what is no predicate.
  static absl::StatusOr<Predicate> Parse(absl::string_view text);

  // The columns it reads, in the order of their first use. Never empty.
  const std::vector<std::string>& columns() const { return columns_; }
  // Fits literals to the columns' types. InvalidArgument, naming the column, if
  // the data lacks it, if it holds lists or maps, or values that a literal cannot equal.
  absl::Status Bind(const std::vector<ColumnSchema>& schema);

  // The rows for which it is true, ascending. REQUIRES: bound; one of `columns`
  // for each of columns(), all of `rows` rows.
  std::vector<int64_t> Matching(std::span<const Column> columns, int64_t rows) const;
  // False if no row within `bounds`, one for each of columns(), can match. Rules
  // out less before it is bound.
  bool MayMatch(std::span<const ValueBounds> bounds) const;

 private:
  friend class PredicateParser;
  enum class Op { kAnd, kOr, kNot, kIsNull, kIn, kEqual, kLess, kLessEqual, kMore, kMoreEqual };
  struct Literal {
    bool is_text = false;
    long double number = 0;
    std::string text;
  };
  // Operands stand before what they belong to; the last node is the whole.
  struct Node {
    Op op;
    int left = -1, right = -1;      // Of and, or, not (left alone).
    int column = -1;                // Of the others.
    std::vector<Literal> literals;  // One, but for kIn.
  };
  enum class Kind { kNumber, kUnsigned, kTime, kText, kAny };

  // Sets of the outcomes true, false and unknown, as bits.
  using Outcomes = uint8_t;
  static bool Compare(Op op, int order);
  Outcomes Possible(const Node& node, const ValueBounds& bounds) const;
  Outcomes PossibleWithin(Op op, const Literal& literal, const ValueBounds& bounds) const;
  void Run(const Node& node, const Column& column, std::vector<uint8_t>* truths) const;

  std::vector<std::string> columns_;
  std::vector<Kind> kinds_;  // By column, once bound.
  std::vector<Node> nodes_;
};

}  // namespace starling
