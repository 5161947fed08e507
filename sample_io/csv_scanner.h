// Finds the rows of delimited text: where each begins, newlines inside quotes
// not counted. The rules are those of Arrow's CSV parser, which reads the
// values: a quote counts at the start of a value only, "" inside quotes is a
// quote, empty lines are no rows, a line ends with \n, \r or \r\n.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"

namespace starling {

// A run of whole rows.
struct CsvBlock {
  int64_t offset = 0;  // In bytes, of the text.
  int64_t bytes = 0;
  int64_t first_row = 0;  // The header is none.
  int64_t rows = 0;
};

class CsvScanner {
 public:
  // Blocks end with the first row that brings them to `block_bytes`.
  CsvScanner(char delimiter, int64_t block_bytes)
      : delimiter_(delimiter), block_bytes_(block_bytes) {}

  // Takes the next bytes of the text.
  void Add(absl::string_view text);
  // Ends the text. False if it ends inside quotes.
  bool Finish();

  bool has_header() const { return has_header_; }
  int64_t header_offset() const { return header_offset_; }
  const std::vector<CsvBlock>& blocks() const { return blocks_; }
  // Where the first row after the header begins, or the text ends.
  int64_t data_offset() const { return blocks_.empty() ? at_ : blocks_[0].offset; }

 private:
  enum class State { kRowStart, kValueStart, kValue, kQuoted, kQuoteInQuotes };
  State Next(char c);
  void BeginRow(int64_t offset);

  const char delimiter_;
  const int64_t block_bytes_;
  State state_ = State::kRowStart;
  int64_t at_ = 0;
  int64_t rows_ = 0;
  bool has_header_ = false;
  int64_t header_offset_ = 0;
  std::vector<CsvBlock> blocks_;
};

}  // namespace starling
