// A Parquet file that is read from a row on: pages that end before it are passed
// over by their headers alone, neither unpacked nor decoded.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace arrow::io {
class RandomAccessFile;
}
namespace parquet {
class FileMetaData;
class ParquetFileReader;
class ReaderProperties;
}  // namespace parquet

namespace starling {

// Rows passed over at the start of each leaf's chunk, once its first page was
// read. Always 0 of a leaf inside a list: its pages do not say how many rows they hold.
using SkippedRows = std::vector<int64_t>;

// Opens `file` to read one row group from row `begin` on: column readers start with the
// page that holds it. Empty pages are passed over too. `skipped` must outlive the reader, and is
// sized here. May throw.
std::unique_ptr<parquet::ParquetFileReader> OpenFromRow(
    std::shared_ptr<arrow::io::RandomAccessFile> file, const parquet::ReaderProperties& properties,
    std::shared_ptr<parquet::FileMetaData> footer, int64_t begin, SkippedRows* skipped);

}  // namespace starling
