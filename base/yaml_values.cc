#include "base/yaml_values.h"

#include <cctype>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/options.pb.h"
#include "base/status.h"
#include "base/yaml_proto.h"

namespace starling {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using UnitTable = std::vector<std::pair<const char*, double>>;

constexpr int64_t kRangeMax = 100'000;  // Elements of one range.

const UnitTable& ByteUnits() {
  static const UnitTable* units = new UnitTable{
      {"B", 1},          {"KB", 1e3},       {"MB", 1e6},       {"GB", 1e9},      {"TB", 1e12},
      {"KiB", 0x1.0p10}, {"MiB", 0x1.0p20}, {"GiB", 0x1.0p30}, {"TiB", 0x1.0p40}};
  return *units;
}

const UnitTable& DurationUnits() {
  static const UnitTable* units =
      new UnitTable{{"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}, {"d", 86400}, {"w", 604800}};
  return *units;
}

std::string UnitNames(const UnitTable& units) {
  return absl::StrJoin(units, ", ", [](std::string* out, const auto& u) { out->append(u.first); });
}

// A finite decimal number, and nothing else: no hex, no nan, no spaces.
bool ParseNumber(absl::string_view text, double* value) {
  if (text.empty() || text.find_first_not_of("0123456789+-.eE") != absl::string_view::npos)
    return false;
  return absl::SimpleAtod(text, value) && std::isfinite(*value);
}

// The value of number-with-unit `text`, in the unit whose factor is 1.
absl::StatusOr<double> ParseQuantity(absl::string_view text, const UnitTable& units) {
  size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  absl::string_view unit = absl::StripAsciiWhitespace(text.substr(digits));
  double value = 0;
  if (!ParseNumber(text.substr(0, digits), &value)) {
    return absl::InvalidArgumentError(
        absl::StrCat("found \"", text, "\"; units are ", UnitNames(units)));
  }
  if (unit.empty()) return value;
  for (const auto& [name, factor] : units) {
    if (absl::AsciiStrToLower(name) == absl::AsciiStrToLower(unit)) return value * factor;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("found \"", text, "\": no unit \"", unit, "\"; units are ", UnitNames(units)));
}

std::string QuantityPattern(const UnitTable& units) {
  std::string names;
  for (const auto& [name, factor] : units) {
    if (!names.empty()) names += "|";
    for (const char* c = name; *c; ++c) {
      absl::StrAppend(&names, "[", std::string(1, absl::ascii_toupper(*c)),
                      std::string(1, absl::ascii_tolower(*c)), "]");
    }
  }
  return absl::StrCat("^[0-9]+(\\.[0-9]*)? *(", names, ")$");
}

// One end of a range: what stands before the trailing digits, and the digits.
struct RangeEnd {
  absl::string_view prefix, digits;
  int64_t number = 0;
};
bool ParseRangeEnd(absl::string_view text, RangeEnd* end) {
  size_t at = text.size();
  while (at > 0 && absl::ascii_isdigit(text[at - 1])) --at;
  end->prefix = text.substr(0, at);
  end->digits = text.substr(at);
  return absl::SimpleAtoi(end->digits, &end->number);
}

template <typename T>
absl::Status ParseInteger(const std::string& text, T* value) {
  absl::string_view digits = text;
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) digits.remove_prefix(1);
  if (digits.empty() || digits.find_first_not_of("0123456789") != absl::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat("expected an integer, found \"", text, "\""));
  }
  if (absl::SimpleAtoi(text, value)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(text, " is out of range ",
                                                 std::numeric_limits<T>::min(), "..",
                                                 std::numeric_limits<T>::max()));
}

// Calls Set or Add of reflection, by whether the field is repeated.
#define STARLING_PUT(Type, value)                              \
  (field.is_repeated() ? r.Add##Type(message, &field, (value)) \
                       : r.Set##Type(message, &field, (value)))

absl::Status SetInteger(const FieldDescriptor& field, const std::string& text, Message* message) {
  const google::protobuf::Reflection& r = *message->GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: {
      int32_t v = 0;
      const bool automatic = field.options().GetExtension(unit) == UNIT_COUNT && text == "auto";
      if (!automatic) RETURN_IF_ERROR(ParseInteger(text, &v));
      STARLING_PUT(Int32, v);
      break;
    }
    case FieldDescriptor::CPPTYPE_UINT32: {
      uint32_t v = 0;
      RETURN_IF_ERROR(ParseInteger(text, &v));
      STARLING_PUT(UInt32, v);
      break;
    }
    case FieldDescriptor::CPPTYPE_UINT64: {
      uint64_t v = 0;
      RETURN_IF_ERROR(ParseInteger(text, &v));
      STARLING_PUT(UInt64, v);
      break;
    }
    default: {
      int64_t v = 0;
      if (field.options().GetExtension(unit) == UNIT_BYTES) {
        ASSIGN_OR_RETURN(v, ParseByteSize(text));
      } else {
        RETURN_IF_ERROR(ParseInteger(text, &v));
      }
      STARLING_PUT(Int64, v);
    }
  }
  return absl::OkStatus();
}

absl::Status SetReal(const FieldDescriptor& field, const std::string& text, Message* message) {
  const google::protobuf::Reflection& r = *message->GetReflection();
  double v = 0;
  if (field.options().GetExtension(unit) == UNIT_DURATION) {
    ASSIGN_OR_RETURN(v, ParseDuration(text));
  } else if (!ParseNumber(text, &v)) {
    return absl::InvalidArgumentError(absl::StrCat("expected a number, found \"", text, "\""));
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_FLOAT) {
    STARLING_PUT(Float, static_cast<float>(v));
  } else {
    STARLING_PUT(Double, v);
  }
  return absl::OkStatus();
}

absl::Status SetEnum(const FieldDescriptor& field, const std::string& text, Message* message) {
  const google::protobuf::Reflection& r = *message->GetReflection();
  std::vector<std::string> names = EnumNames(*field.enum_type());
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] != text) continue;
    STARLING_PUT(Enum, field.enum_type()->value(static_cast<int>(i)));
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("expected ", TypeDue(field), ", found \"", text, "\"", DidYouMean(text, names)));
}

absl::Status SetBare(const FieldDescriptor& field, const std::string& text, Message* message) {
  const google::protobuf::Reflection& r = *message->GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_ENUM:
      return SetEnum(field, text, message);
    case FieldDescriptor::CPPTYPE_BOOL:
      if (text != "true" && text != "false") {
        return absl::InvalidArgumentError(
            absl::StrCat("expected true or false, found \"", text, "\""));
      }
      STARLING_PUT(Bool, text == "true");
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_DOUBLE:
    case FieldDescriptor::CPPTYPE_FLOAT:
      return SetReal(field, text, message);
    default:
      return SetInteger(field, text, message);
  }
}

}  // namespace

absl::StatusOr<int64_t> ParseByteSize(absl::string_view text) {
  absl::StatusOr<double> bytes = ParseQuantity(text, ByteUnits());
  if (!bytes.ok()) return Annotate(bytes.status(), "expected a size such as 4GiB");
  if (*bytes >= 0x1.0p63)
    return absl::InvalidArgumentError(absl::StrCat(text, " is more than 64 bits hold"));
  return static_cast<int64_t>(*bytes);
}

absl::StatusOr<double> ParseDuration(absl::string_view text) {
  absl::StatusOr<double> seconds = ParseQuantity(text, DurationUnits());
  if (!seconds.ok()) return Annotate(seconds.status(), "expected a duration such as 30d");
  return seconds;
}

absl::StatusOr<std::vector<std::string>> ExpandRange(absl::string_view text) {
  size_t dots = text.find("..");
  if (dots == absl::string_view::npos) return std::vector<std::string>{std::string(text)};
  auto bad = [text](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("bad range \"", text, "\": ", why));
  };
  RangeEnd a, b;
  if (!ParseRangeEnd(text.substr(0, dots), &a) || !ParseRangeEnd(text.substr(dots + 2), &b)) {
    return bad("both ends need a number, as in C1..C26");
  }
  if (a.prefix != b.prefix) {
    return bad(absl::StrCat("the ends differ before the number, \"", a.prefix, "\" and \"",
                            b.prefix, "\""));
  }
  bool padded =
      (a.digits.size() > 1 && a.digits[0] == '0') || (b.digits.size() > 1 && b.digits[0] == '0');
  if (padded && a.digits.size() != b.digits.size()) return bad("zero-padded ends differ in length");
  if (a.number > b.number) return bad("it runs backwards");
  if (b.number - a.number >= kRangeMax) {
    return bad(absl::StrCat("more than ", kRangeMax, " elements"));
  }
  std::vector<std::string> out;
  for (int64_t i = a.number; i <= b.number; ++i) {
    std::string digits = absl::StrCat(i);
    if (padded) digits.insert(0, a.digits.size() - digits.size(), '0');
    out.push_back(absl::StrCat(a.prefix, digits));
  }
  return out;
}

absl::Status SetScalar(const FieldDescriptor& field, const std::string& text, bool quoted,
                       Message* message) {
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    const google::protobuf::Reflection& r = *message->GetReflection();
    STARLING_PUT(String, text);
    return absl::OkStatus();
  }
  bool has_unit = field.options().GetExtension(unit) != UNIT_NONE;
  if (quoted && !has_unit && field.cpp_type() != FieldDescriptor::CPPTYPE_ENUM) {
    return absl::InvalidArgumentError(absl::StrCat("expected ", TypeDue(field),
                                                   ", found the quoted string \"", text,
                                                   "\"; remove the quotes"));
  }
  return SetBare(field, text, message);
}

std::string TypeDue(const FieldDescriptor& field) {
  if (field.options().GetExtension(unit) == UNIT_BYTES) return "a size such as 4GiB";
  if (field.options().GetExtension(unit) == UNIT_DURATION) return "a duration such as 30d";
  if (field.options().GetExtension(unit) == UNIT_COUNT) return "an integer or auto";
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return "a mapping";
    case FieldDescriptor::CPPTYPE_STRING:
      return "a string";
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true or false";
    case FieldDescriptor::CPPTYPE_DOUBLE:
    case FieldDescriptor::CPPTYPE_FLOAT:
      return "a number";
    case FieldDescriptor::CPPTYPE_ENUM:
      return absl::StrCat("one of ", absl::StrJoin(EnumNames(*field.enum_type()), ", "));
    default:
      return "an integer";
  }
}

std::vector<std::string> EnumNames(const google::protobuf::EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) {
    names.push_back(absl::AsciiStrToLower(type.value(i)->name()));
  }
  return names;
}

std::string ByteSizePattern() { return QuantityPattern(ByteUnits()); }
std::string DurationPattern() { return QuantityPattern(DurationUnits()); }

}  // namespace starling
