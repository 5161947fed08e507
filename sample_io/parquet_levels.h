// A page of Parquet taken apart: levels of repetition and definition, and values. As
// Arrow's column reader does it, but levels are bytes, and can be passed over.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

namespace parquet {
class ColumnDescriptor;
class DataPage;
class LevelDecoder;
}  // namespace parquet

namespace starling {

struct PageParts {
  std::span<const uint8_t> repetition, definition, values;
  // Packed as very old writers did.
  bool old_repetition = false, old_definition = false;
};

// Throws parquet::ParquetException if the parts are larger than the page.
PageParts SplitPage(const parquet::DataPage& page, const parquet::ColumnDescriptor& leaf);

// The levels of one page, in order.
class LevelReader {
 public:
  LevelReader();
  ~LevelReader();

  // `entries` levels of 0 to `max`; `bytes` must outlive the reading of them.
  void Start(std::span<const uint8_t> bytes, bool old, int16_t max, int entries);
  // The next n of them. Throws parquet::ParquetException if there are not so many, or one is
  // above the largest.
  void Read(int n, uint8_t* levels);

 private:
  void NextRun();
  void ReadOld(int n, uint8_t* levels);

  std::span<const uint8_t> rest_;  // Behind the run under way.
  int bits_ = 0;
  int16_t max_ = 0;
  int64_t run_ = 0;                             // Levels left of the run, which is
  bool packed_ = false;                         // packed,
  std::span<const uint8_t> run_bytes_;          // in these bytes
  int64_t run_at_ = 0;                          // from this place on,
  uint8_t run_level_ = 0;                       // or one level again and again.
  std::unique_ptr<parquet::LevelDecoder> old_;  // Null unless they are packed so.
};

}  // namespace starling
