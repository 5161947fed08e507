// Summaries of a stream of values in bounded memory, for `starling inspect
// data`: how many distinct values, which are frequent, and a fair sample. Each
// merges with the summary of another part of the stream.
//
// Thread safety: none; one summary a thread, merged afterwards.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace starling {

// An estimate of the number of distinct hashes added (HyperLogLog with Ertl's
// estimator, which needs no table of corrections). Standard error 0.81 % at any
// number up to 2^60. The order of Add and Merge never changes the registers.
class HyperLogLog {
 public:
  static constexpr int kPrecision = 14;
  static constexpr double kStandardError = 1.04 / 128;  // 1.04 / sqrt(2^kPrecision)

  HyperLogLog() : registers_(size_t{1} << kPrecision, 0) {}
  void Add(uint64_t hash);  // All 64 bits must be well mixed.
  void Merge(const HyperLogLog& other);
  double Estimate() const;
  bool operator==(const HyperLogLog& other) const { return registers_ == other.registers_; }

 private:
  std::vector<uint8_t> registers_;  // Longest run of zeros seen, plus one.
};

// The most frequent keys and their counts (Misra and Gries, purged in batches).
// A key's true count lies in [Count(key), Count(key) + error()], and
// error() <= total() / (capacity + 1) over any number of merges. While no more
// than `capacity` distinct keys were added, every count is exact. The result is
// a function of the order of the calls alone.
class TopValues {
 public:
  struct Entry {
    uint64_t key = 0;
    std::string text;   // As added first, cut to kTextBytesMax.
    int64_t count = 0;  // At least so many.
  };
  static constexpr size_t kTextBytesMax = 64;

  explicit TopValues(int capacity = 2048) : capacity_(capacity) {}
  // A key must come with the same text each time.
  void Add(uint64_t key, absl::string_view text) { Add(key, text, 1); }
  void Merge(const TopValues& other);

  int64_t total() const { return total_; }
  int64_t error() const { return error_; }
  bool exact() const { return error_ == 0; }
  int64_t Count(uint64_t key) const;  // 0 if not kept.
  // The `n` greatest counts, greatest first; equal counts by text, then key.
  std::vector<Entry> Top(size_t n) const;
  size_t kept() const { return entries_.size(); }

 private:
  struct Slot {
    int64_t count = 0;
    std::string text;
  };
  void Add(uint64_t key, absl::string_view text, int64_t count);
  void Purge();

  size_t capacity_;
  int64_t total_ = 0;
  int64_t error_ = 0;                            // What the purges took off each count.
  absl::flat_hash_map<uint64_t, Slot> entries_;  // At most twice the capacity.
};

// A uniform sample without replacement: the values of the `capacity` least
// priorities. With priorities drawn from a value's place in the data, the
// sample does not depend on the order of Add and Merge. It is the whole stream
// while that is no longer than the capacity.
class ValueSample {
 public:
  explicit ValueSample(int capacity = 8192) : capacity_(capacity) {}
  void Add(uint64_t priority, double value) {
    if (priority > priority_max_) return;
    values_.emplace_back(priority, value);
    if (values_.size() >= 2 * capacity_) Shrink();
  }
  void Merge(const ValueSample& other);
  std::vector<double> Sorted() const;

 private:
  void Shrink();

  size_t capacity_;
  uint64_t priority_max_ = ~uint64_t{0};  // No greater one can be of the sample.
  std::vector<std::pair<uint64_t, double>> values_;
};

}  // namespace starling
