// What reading a Parquet row group takes in memory, told from its footer.
#pragma once

#include <cstdint>

namespace parquet {
class ColumnChunkMetaData;
class RowGroupMetaData;
}  // namespace parquet

namespace starling {

// Bytes of all columns as `Column`s, and of what their making takes at its
// height beside them, near enough. What a footer says is believed here: a wrong
// one leads to a wrong estimate, nothing worse. May throw.
int64_t ReadBytes(const parquet::RowGroupMetaData& group);

// True if every value of the chunk stands in its dictionary.
bool AllInDictionary(const parquet::ColumnChunkMetaData& chunk);

}  // namespace starling
