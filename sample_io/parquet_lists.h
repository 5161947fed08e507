// Numbers in lists, from Parquet's pages straight into a Column: lists of numbers, and
// members of a list of structs, which are a nested log's impressions. As
// parquet_flat.h for lists: Arrow's arrays of lists cost several times as much.
#pragma once

#include <cstdint>

#include "sample_io/columns.h"

namespace arrow {
class DataType;
class Status;
}  // namespace arrow
namespace parquet {
class ColumnDescriptor;
class ColumnReader;
}  // namespace parquet

namespace starling {

// True if ReadLists reads a leaf of the type: integers or floating-point numbers
// inside one list, also with structs around or in it.
bool IsInOneList(const arrow::DataType& type, const parquet::ColumnDescriptor& column);

// Fills rows [begin, begin + rows) of a column chunk into `column`, but for the name: the
// elements of a list, or with `member` as a column of its own with outer_offsets. Returns
// the number of rows found. `reader` has read nothing yet. May throw what Arrow throws for
// damaged pages. REQUIRES: IsInOneList.
arrow::Status ReadLists(parquet::ColumnReader& reader, int64_t begin, int64_t rows, bool member,
                        Column* column, int64_t* found);

}  // namespace starling
