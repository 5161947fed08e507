// Numbers in lists, from Parquet's pages straight into a Column: lists of numbers, and
// members of a list of structs, which are a nested log's impressions. As
// parquet_flat.h for lists: Arrow's arrays of lists cost several times as much.
//
// Members of one list begin their rows at the same places, and so say the same in
// their levels of repetition. These are decoded once, for the first of them; the others'
// are compared with it byte by byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

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

// True if ReadLists reads a leaf of the type: integers or floating-point numbers
// inside one list, also with structs around or in it.
bool IsInOneList(const arrow::DataType& type, const parquet::ColumnDescriptor& column);

// Where rows begin in the pages that were read last, for the next column.
class RowStarts {
 public:
  struct Page {
    std::vector<uint8_t> levels;
    int entries = 0;
    bool kept = false;             // For the next column: else a block's are enough.
    bool whole = false;            // All starts are there.
    std::vector<uint32_t> starts;  // Entries of the page that begin a row.
  };
  // Page `number` of a column. It has its starts if the page in its place had the same
  // levels of repetition; else they are to be filled.
  Page& Of(size_t number, std::span<const uint8_t> levels, int entries);

 private:
  std::vector<Page> pages_;
  Page other_;  // One that is not kept.
};

// Rows [begin, begin + rows): as lists, or as a member of lists of structs.
struct ListRange {
  int64_t begin = 0, rows = 0;
  bool member = false;
};

// Fills a range of a column chunk into `column`, but for the name: the elements of a list, or a
// column of its own with outer_offsets. Its numbers may be there from before, and are overwritten.
// `found` are the rows that are there. `pages` has read nothing yet. May throw what Arrow throws
// for damaged pages. REQUIRES: IsInOneList.
arrow::Status ReadLists(parquet::PageReader& pages, const parquet::ColumnDescriptor& leaf,
                        const ListRange& range, RowStarts* starts, Column* column, int64_t* found);

}  // namespace starling
