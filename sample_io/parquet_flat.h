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
class PageReader;
}  // namespace parquet

namespace starling {

// Integers or floating-point numbers, stored as they are.
bool IsPlainNumber(const arrow::DataType& type, const parquet::ColumnDescriptor& column);
// True if ReadFlat reads such a column: plain numbers that stand once a row, also
// inside structs.
bool IsFlat(const arrow::DataType& type, const parquet::ColumnDescriptor& column);

// Says whether a column holds integers, and frees numbers of the other kind.
void SetNumbers(bool ints, Column* column);

// Rows [begin, begin + rows) of a column chunk, whose reader passes over `skipped` of them
// before its first page; they are known once that was read.
struct FlatRange {
  int64_t begin = 0, rows = 0;
  const int64_t* skipped = nullptr;
};

// Fills a range into `column`, but for the name; its numbers may be there from before, and are
// overwritten. `pages` has read nothing yet. A row is null if its value or a struct around it is.
// column->rows is less than those of the range if there are not so many. May
// throw what Arrow throws for damaged pages. REQUIRES: IsFlat.
arrow::Status ReadFlat(parquet::PageReader& pages, const parquet::ColumnDescriptor& leaf,
                       const FlatRange& range, Column* column);

}  // namespace starling
