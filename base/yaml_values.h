// Scalars of the strict YAML reader: text to typed value, units and ranges.
// Messages say what was due and what stood there; the caller adds the place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace starling {

// `4GiB`, `512 MB`, `1.5gib`, or a plain number of bytes. Not negative.
absl::StatusOr<int64_t> ParseByteSize(absl::string_view text);
// Seconds of `30d`, `10min`, `1.5s`, `20ms`, or a plain number. Not negative.
absl::StatusOr<double> ParseDuration(absl::string_view text);

// `C1..C26` as C1, C2, … C26; `f01..f10` keeps the zeros. Text without `..`
// stands for itself.
absl::StatusOr<std::vector<std::string>> ExpandRange(absl::string_view text);

// Sets `field`, or appends to it if it is repeated. `quoted` text is a string,
// whatever it looks like.
absl::Status SetScalar(const google::protobuf::FieldDescriptor& field, const std::string& text,
                       bool quoted, google::protobuf::Message* message);

// "an integer", "one of sum, mean, sqrtn", "a duration such as 30d": what the field takes.
std::string TypeDue(const google::protobuf::FieldDescriptor& field);

// The enum's values as the YAML has them: lower case.
std::vector<std::string> EnumNames(const google::protobuf::EnumDescriptor& type);

// Regular expressions (JSON Schema) of what ParseByteSize and ParseDuration take.
std::string ByteSizePattern();
std::string DurationPattern();

}  // namespace starling
