// What `bench store` compares the table with: bare rows of the same bytes on
// the same kind of pages, and a table that absl::flat_hash_map makes easy.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"

namespace starling {

inline constexpr int kBenchDim = 16;

// Memory on huge pages, where the kernel has them; zero until written.
class HugePages {
 public:
  explicit HugePages(size_t bytes);
  ~HugePages();
  HugePages(const HugePages&) = delete;
  HugePages& operator=(const HugePages&) = delete;
  char* data() const { return data_; }

 private:
  size_t bytes_;
  void* mapped_;
  char* data_;
};

// Rows of 20 bytes, 16 weights and the state, one behind the other; and an
// index of one cache line for 9.4 rows, whose content alone tells where a row
// is. Thread safety: as plain memory.
class BareRows {
 public:
  // REQUIRES: rows < 2^27.
  BareRows(int64_t rows, int state_floats);
  // The index holds the first `rows` rows; to measure fewer rows than there are.
  void Index(int64_t rows);

  // Where the index says the row's number: a place among its entries.
  uint32_t PlaceOf(uint32_t row) const;

  // Tries both forms (bench_store_kernel.cc) on batches, more than a cache holds; from now on the
  // faster one counts.
  void TakeFasterForm(const std::vector<std::vector<uint32_t>>& places);

  void Gather(std::span<const uint32_t> rows, float* out) const;
  void LineGather(std::span<const uint32_t> places, float* out) const;
  // REQUIRES: state_floats is 16.
  void Adagrad(std::span<const uint32_t> rows, const float* grads);
  void LineAdagrad(std::span<const uint32_t> places, const float* grads);

  static int64_t Bytes(int64_t rows, int state_floats);

 private:
  uint32_t* entries() const { return reinterpret_cast<uint32_t*>(index_.data()); }

  const size_t stride_;
  int64_t indexed_ = 0;
  bool l2_ = false;
  HugePages rows_, index_;
};

// Shards of one lock, one map and one vector each. Ids come sorted by bucket,
// and a shard is a run of buckets: a call takes each lock once.
class AbslTable {
 public:
  explicit AbslTable(int64_t rows_expected);
  void LookupOrCreate(std::span<const uint64_t> ids, float* weights);
  void Adagrad(std::span<const uint64_t> ids, const float* grads);

 private:
  struct Row {
    float weights[kBenchDim], state[kBenchDim];
  };
  struct Shard {
    absl::Mutex mu;
    absl::flat_hash_map<uint64_t, uint32_t> index;
    std::vector<Row> rows;
  };
  template <typename Use>
  void ForRuns(std::span<const uint64_t> ids, Use use);

  std::array<Shard, 64> shards_;
};

}  // namespace starling
