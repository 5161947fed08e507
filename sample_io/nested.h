// Members of structs, and of lists of structs, as columns of their own: the
// member `age` of a struct `user` is the column user.age, the member `item` of
// a list of structs `impressions` is impressions.item, with outer_offsets.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "sample_io/columns.h"

namespace arrow {
class ChunkedArray;
class DataType;
class Field;
}  // namespace arrow

namespace starling {

struct NestedField {
  std::string name;               // Joined by dots.
  std::vector<std::string> path;  // The members below the top field; empty: it is no struct.
  std::shared_ptr<arrow::DataType> type;
};

// All columns that `field` stands for: itself, unless it is a struct or a list
// of structs. A list of structs inside another one is left as it is.
std::vector<NestedField> ExpandField(const arrow::Field& field);

// As FromArrow, for the member `path` of the structs in `values`.
absl::Status FromArrowMember(const std::shared_ptr<arrow::ChunkedArray>& values,
                             const std::vector<std::string>& path, Column* column);

}  // namespace starling
