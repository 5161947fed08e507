// What a column of the data can serve as, judged by Arrow's name of its type.
#pragma once

#include "absl/strings/string_view.h"

namespace starling {

struct DataType {
  enum Kind { kInteger, kReal, kString, kTime, kNull, kMap, kOther };
  Kind kind = kOther;  // Of the elements, if it is a list.
  bool list = false;
  Kind items = kOther;  // Of a map's values.

  bool FitsId() const { return kind != kReal && kind != kMap && kind != kOther; }
  bool FitsNumbers() const { return kind == kInteger || kind == kReal || kind == kNull; }
  bool FitsRaw() const { return !list && (kind == kInteger || kind == kReal || kind == kNull); }
  bool FitsLabel() const { return !list && (kind == kInteger || kind == kReal); }
  bool FitsEventTime() const { return !list && (kind == kInteger || kind == kTime); }
  bool FitsGroup() const { return !list && FitsId(); }
};

// `type` as in ColumnSchema: "int64", "list<item: string>", "timestamp[us]".
DataType DataTypeNamed(absl::string_view type);

}  // namespace starling
