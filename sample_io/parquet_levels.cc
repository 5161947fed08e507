#include "sample_io/parquet_levels.h"

#include <immintrin.h>
#include <parquet/column_page.h>
#include <parquet/column_reader.h>
#include <parquet/exception.h>
#include <parquet/schema.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace starling {
namespace {

[[noreturn]] void Damaged(const char* what) { throw parquet::ParquetException(what); }

// Takes the first `n` bytes away.
std::span<const uint8_t> Cut(int64_t n, std::span<const uint8_t>* bytes) {
  if (n < 0 || n > std::ssize(*bytes)) Damaged("levels larger than their page");
  const std::span<const uint8_t> first = bytes->first(n);
  *bytes = bytes->subspan(n);
  return first;
}

// Levels of a page of the first version: behind their size, but for the old encoding.
std::span<const uint8_t> CutLevels(parquet::Encoding::type encoding, int16_t max, int64_t entries,
                                   std::span<const uint8_t>* bytes) {
  if (max == 0) return {};
  if (encoding == parquet::Encoding::BIT_PACKED) {
    return Cut((entries * std::bit_width(static_cast<uint16_t>(max)) + 7) / 8, bytes);
  }
  if (encoding != parquet::Encoding::RLE) Damaged("levels in an unknown encoding");
  int32_t size = 0;
  const std::span<const uint8_t> prefix = Cut(sizeof(size), bytes);
  std::memcpy(&size, prefix.data(), sizeof(size));
  return Cut(size, bytes);
}

// Eight levels of `bits` bits each, from as many bytes, to a byte each.
void UnpackEights(const uint8_t* bytes, int bits, int eights, uint8_t* levels) {
  const auto mask = static_cast<uint8_t>((1 << bits) - 1);
  for (int i = 0; i < eights; ++i, bytes += bits, levels += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes, static_cast<size_t>(bits));
    for (int k = 0; k < 8; ++k) levels[k] = static_cast<uint8_t>(word >> k * bits) & mask;
  }
}

// The same by the one instruction that does it.
template <int bits>
[[gnu::target("bmi2")]] void UnpackEightsBmi2(const uint8_t* bytes, int eights, uint8_t* levels) {
  constexpr uint64_t kMask = 0x0101010101010101ull * ((1 << bits) - 1);
  for (int i = 0; i < eights; ++i, bytes += bits, levels += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes, bits);
    word = _pdep_u64(word, kMask);
    std::memcpy(levels, &word, sizeof(word));
  }
}

void UnpackFast(const uint8_t* bytes, int bits, int eights, uint8_t* levels) {
  static const bool bmi2 = __builtin_cpu_supports("bmi2") != 0;
  if (bmi2 && bits == 1) return UnpackEightsBmi2<1>(bytes, eights, levels);
  if (bmi2 && bits == 2) return UnpackEightsBmi2<2>(bytes, eights, levels);
  if (bmi2 && bits == 3) return UnpackEightsBmi2<3>(bytes, eights, levels);
  UnpackEights(bytes, bits, eights, levels);
}

// Levels [from, from + n) of those packed into `bits` bits each, which are all there.
void Unpack(const uint8_t* bytes, int bits, int64_t from, int n, uint8_t* levels) {
  const auto mask = static_cast<uint8_t>((1 << bits) - 1);
  auto one = [&](int64_t at) {
    const int64_t bit = at * bits;
    uint32_t word = bytes[bit / 8];
    if (bit % 8 + bits > 8) word |= uint32_t{bytes[bit / 8 + 1]} << 8;
    return static_cast<uint8_t>(word >> bit % 8 & mask);
  };
  int i = 0;
  for (; i < n && (from + i) % 8 != 0; ++i) levels[i] = one(from + i);
  if (const int eights = (n - i) / 8; eights > 0) {
    UnpackFast(bytes + (from + i) / 8 * bits, bits, eights, levels + i);
    i += 8 * eights;
  }
  for (; i < n; ++i) levels[i] = one(from + i);
}

}  // namespace

PageParts SplitPage(const parquet::DataPage& page, const parquet::ColumnDescriptor& leaf) {
  PageParts parts = {};
  std::span<const uint8_t> rest(page.data(), static_cast<size_t>(page.size()));
  if (page.type() == parquet::PageType::DATA_PAGE_V2) {
    const auto& v2 = static_cast<const parquet::DataPageV2&>(page);
    parts.repetition = Cut(v2.repetition_levels_byte_length(), &rest);
    parts.definition = Cut(v2.definition_levels_byte_length(), &rest);
  } else {
    const auto& v1 = static_cast<const parquet::DataPageV1&>(page);
    const auto repetition = v1.repetition_level_encoding();
    const auto definition = v1.definition_level_encoding();
    parts.old_repetition = repetition == parquet::Encoding::BIT_PACKED;
    parts.old_definition = definition == parquet::Encoding::BIT_PACKED;
    const int64_t entries = page.num_values();
    parts.repetition = CutLevels(repetition, leaf.max_repetition_level(), entries, &rest);
    parts.definition = CutLevels(definition, leaf.max_definition_level(), entries, &rest);
  }
  parts.values = rest;
  return parts;
}

LevelReader::LevelReader() = default;
LevelReader::~LevelReader() = default;

void LevelReader::Start(std::span<const uint8_t> bytes, bool old, int16_t max, int entries) {
  rest_ = bytes;
  max_ = max;
  bits_ = std::bit_width(static_cast<uint16_t>(max));
  if (bits_ > 8) Damaged("columns nested so deeply are not read");
  run_ = 0;
  old_ = old && max > 0 ? std::make_unique<parquet::LevelDecoder>(max) : nullptr;
  if (old_ == nullptr) return;
  old_->SetData(parquet::Encoding::BIT_PACKED, max, entries, bytes.data(),
                static_cast<int32_t>(bytes.size()));
}

void LevelReader::NextRun() {
  uint64_t header = 0;
  for (int shift = 0;; shift += 7) {
    if (rest_.empty() || shift > 28) Damaged("levels end early");
    header |= uint64_t{rest_[0] & 0x7Fu} << shift;
    const bool last = rest_[0] < 0x80;
    rest_ = rest_.subspan(1);
    if (last) break;
  }
  packed_ = (header & 1) != 0;
  if (packed_) {
    // The last run may be cut behind the last level that counts.
    const int64_t bytes =
        std::min<int64_t>(static_cast<int64_t>(header >> 1) * bits_, std::ssize(rest_));
    run_bytes_ = Cut(bytes, &rest_);
    run_ = bytes * 8 / bits_;
    run_at_ = 0;
  } else {
    run_ = static_cast<int64_t>(header >> 1);
    run_level_ = Cut(1, &rest_)[0];
    if (run_level_ > max_) Damaged("a level above the largest");
  }
  if (run_ == 0 && rest_.empty()) Damaged("levels end early");
}

void LevelReader::Read(int n, uint8_t* levels) {
  if (max_ == 0) {
    std::memset(levels, 0, static_cast<size_t>(n));
    return;
  }
  if (old_ != nullptr) return ReadOld(n, levels);
  while (n > 0) {
    while (run_ == 0) NextRun();
    const int some = static_cast<int>(std::min<int64_t>(n, run_));
    if (packed_) {
      Unpack(run_bytes_.data(), bits_, run_at_, some, levels);
      uint8_t most = 0;
      for (int i = 0; i < some; ++i) most = std::max(most, levels[i]);
      if (most > max_) Damaged("a level above the largest");
    } else {
      std::memset(levels, run_level_, static_cast<size_t>(some));
    }
    run_ -= some;
    run_at_ += some;
    levels += some;
    n -= some;
  }
}

void LevelReader::ReadOld(int n, uint8_t* levels) {
  std::array<int16_t, 1024> wide;
  while (n > 0) {
    const int some = old_->Decode(std::min<int>(n, wide.size()), wide.data());
    if (some <= 0) Damaged("levels end early");
    for (int i = 0; i < some; ++i) levels[i] = static_cast<uint8_t>(wide[i]);
    levels += some;
    n -= some;
  }
}

}  // namespace starling
