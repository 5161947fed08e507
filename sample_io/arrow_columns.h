// Arrow arrays → Column: the one place that knows Arrow's types. Every offset
// and index is checked, since it may come from a damaged file.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "sample_io/columns.h"

namespace arrow {
class ChunkedArray;
}

namespace starling {

// Fills all of `column` but its name. Strings point into `values`, which
// `column` then keeps alive. InvalidArgument for a type that has no place in a
// Column (structs, lists of lists, maps of lists …); DataLoss if the array is damaged.
absl::Status FromArrow(const std::shared_ptr<arrow::ChunkedArray>& values, Column* column);

}  // namespace starling
