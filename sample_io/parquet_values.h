// The values of a column chunk of plain numbers, page by page: what parquet_levels.h
// is for levels.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

namespace parquet {
class ColumnDescriptor;
class DataPage;
class DictionaryPage;
}  // namespace parquet

namespace starling {

class ChunkValues {
 public:
  // Null if the leaf holds no plain numbers. It must outlive the result.
  static std::unique_ptr<ChunkValues> Make(const parquet::ColumnDescriptor& leaf);
  virtual ~ChunkValues() = default;

  // These may throw what Arrow throws for damaged pages. `page` must outlive its reading.
  virtual void SetDictionary(const parquet::DictionaryPage& page) = 0;
  // Starts a page, whose values stand in `bytes`, behind its levels.
  virtual void Start(const parquet::DataPage& page, std::span<const uint8_t> bytes) = 0;
  // The next n values, without nulls, of the type that is stored.
  virtual void Read(int n, void* values) = 0;
};

}  // namespace starling
