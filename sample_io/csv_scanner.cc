#include "sample_io/csv_scanner.h"

namespace starling {

void CsvScanner::Add(absl::string_view text) {
  for (char c : text) {
    if (state_ == State::kRowStart && c != '\n' && c != '\r') {
      BeginRow(at_);
      state_ = State::kValueStart;
    }
    state_ = Next(c);
    ++at_;
  }
}

bool CsvScanner::Finish() {
  if (!blocks_.empty()) blocks_.back().bytes = at_ - blocks_.back().offset;
  return state_ != State::kQuoted;
}

CsvScanner::State CsvScanner::Next(char c) {
  if (state_ == State::kQuoted) return c == '"' ? State::kQuoteInQuotes : State::kQuoted;
  if (c == '"' && state_ == State::kQuoteInQuotes) return State::kQuoted;
  if (c == '"' && state_ == State::kValueStart) return State::kQuoted;
  if (c == '\n' || c == '\r') return State::kRowStart;
  return c == delimiter_ ? State::kValueStart : State::kValue;
}

void CsvScanner::BeginRow(int64_t offset) {
  if (!has_header_) {
    has_header_ = true;
    header_offset_ = offset;
    return;
  }
  if (blocks_.empty() || offset - blocks_.back().offset >= block_bytes_) {
    if (!blocks_.empty()) blocks_.back().bytes = offset - blocks_.back().offset;
    blocks_.push_back({offset, 0, rows_, 0});
  }
  ++blocks_.back().rows;
  ++rows_;
}

}  // namespace starling
