// Columns of plain numbers, from Parquet's pages straight into a Column: most
// columns of most logs. Without an Arrow array in between there is one copy
// less, and nulls are placed once.
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

// True if ReadFlat reads such a column: integers or floating-point numbers that
// stand once a row, also inside structs.
bool IsFlat(const arrow::DataType& type, const parquet::ColumnDescriptor& column);

// Fills rows [begin, begin + rows) of a column chunk whose reader is at its
// start into `column`, but for the name. A row is null if its value or a struct
// around it is. column->rows is less than `rows` if there are not so many.
// May throw what Arrow throws for damaged pages. REQUIRES: IsFlat.
arrow::Status ReadFlat(parquet::ColumnReader& reader, int64_t begin, int64_t rows, Column* column);

}  // namespace starling
