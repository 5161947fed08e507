#include "sample_io/parquet_size.h"

#include <parquet/metadata.h>
#include <parquet/schema.h>
#include <parquet/size_statistics.h>

#include <algorithm>

#include "absl/strings/string_view.h"

namespace starling {
namespace {

// Bytes behind a column's strings. A dictionary's are kept once.
double StringBytes(const parquet::ColumnChunkMetaData& chunk) {
  const auto stored = static_cast<double>(std::max<int64_t>(0, chunk.total_uncompressed_size()));
  if (AllInDictionary(chunk)) return stored;
  const auto sizes = chunk.size_statistics();
  if (sizes == nullptr || !sizes->unencoded_byte_array_data_bytes) return stored;
  return std::max(stored, static_cast<double>(*sizes->unencoded_byte_array_data_bytes));
}

double ColumnBytes(const parquet::ColumnChunkMetaData& chunk,
                   const parquet::ColumnDescriptor& column) {
  const auto values = static_cast<double>(chunk.num_values());
  const bool strings = column.physical_type() == parquet::Type::BYTE_ARRAY ||
                       column.physical_type() == parquet::Type::FIXED_LEN_BYTE_ARRAY;
  // A value, its mark of null, and of lists an offset; of strings also Arrow's offset.
  double bytes = values * (strings ? sizeof(absl::string_view) + 4 : sizeof(int64_t));
  if (column.max_definition_level() > 0) bytes += values;
  if (column.max_repetition_level() > 0) bytes += 4 * values;
  return bytes + (strings ? StringBytes(chunk) : 0);
}

}  // namespace

int64_t ReadBytes(const parquet::RowGroupMetaData& group) {
  double all = 0, largest = 0;
  for (int c = 0; c < group.num_columns(); ++c) {
    const double bytes = ColumnBytes(*group.ColumnChunk(c), *group.schema()->Column(c));
    all += bytes;
    largest = std::max(largest, bytes);
  }
  // Columns are made one after the other, from Arrow's arrays and before a shuffle.
  return static_cast<int64_t>(std::min(all + 2 * largest, 1e18));
}

bool AllInDictionary(const parquet::ColumnChunkMetaData& chunk) {
  bool any = false;
  for (const parquet::PageEncodingStats& pages : chunk.encoding_stats()) {
    if (pages.page_type == parquet::PageType::DICTIONARY_PAGE) continue;
    if (pages.encoding != parquet::Encoding::PLAIN_DICTIONARY &&
        pages.encoding != parquet::Encoding::RLE_DICTIONARY) {
      return false;
    }
    any = true;
  }
  return any && chunk.has_dictionary_page();
}

}  // namespace starling
