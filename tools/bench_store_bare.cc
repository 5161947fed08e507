#include "tools/bench_store_bare.h"

#include <emmintrin.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

#include "base/hash.h"
#include "tools/bench_store.h"

namespace starling {

#define STARLING_DECLARE(isa)                                                         \
  void BareGather_##isa(bool l2, char* base, size_t stride, const uint32_t* entries,  \
                        const uint32_t* at, size_t n, float* out);                    \
  void BareAdagrad_##isa(bool l2, char* base, size_t stride, const uint32_t* entries, \
                         const uint32_t* at, size_t n, const float* grads)
STARLING_DECLARE(base);
STARLING_DECLARE(avx2);
#undef STARLING_DECLARE

namespace {

constexpr size_t kHugePage = 2 << 20;
constexpr size_t kRowHeader = 20;
constexpr uint64_t kLineEntries = 16;  // Four bytes each.
// Rows a line holds on average, times 10: 12 places at a load of 78 %.
constexpr uint64_t kRowsPerTenLines = 94;
constexpr uint64_t kScatter = 2654435761;  // A prime above any number of rows.

bool Avx2() {
  static const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return avx2;
}

size_t StrideOf(int state_floats) { return kRowHeader + 4 * (kBenchDim + state_floats); }
size_t IndexBytes(int64_t rows) { return (rows * 10 / kRowsPerTenLines + 1) * kLineEntries * 4; }

}  // namespace

HugePages::HugePages(size_t bytes) : bytes_(bytes + kHugePage) {
  mapped_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped_ == MAP_FAILED) throw std::bad_alloc();
  uintptr_t at = (reinterpret_cast<uintptr_t>(mapped_) + kHugePage - 1) & ~(kHugePage - 1);
  data_ = reinterpret_cast<char*>(at);
  madvise(data_, bytes, MADV_HUGEPAGE);  // A kernel without them measures with small ones.
}

HugePages::~HugePages() { munmap(mapped_, bytes_); }

BareRows::BareRows(int64_t rows, int state_floats)
    : stride_(StrideOf(state_floats)), rows_(rows * stride_), index_(IndexBytes(rows)) {
  for (int64_t i = 0; i < rows; ++i) {
    char* row = rows_.data() + i * stride_;
    for (int j = 0; j < kBenchDim + state_floats; ++j) {
      float value = 0.01f;
      memcpy(row + kRowHeader + 4 * j, &value, 4);
    }
  }
  Index(rows);
}

void BareRows::Index(int64_t rows) {
  indexed_ = rows;
  for (int64_t row = 0; row < rows; ++row) entries()[PlaceOf(row)] = row;
}

uint32_t BareRows::PlaceOf(uint32_t row) const {
  uint64_t at = row * kScatter % indexed_;
  uint64_t line = at * 10 / kRowsPerTenLines;
  uint64_t first = (line * kRowsPerTenLines + 9) / 10;  // The smallest `at` of the line.
  return line * kLineEntries + (at - first);
}

void BareRows::TakeFasterForm(const std::vector<std::vector<uint32_t>>& places) {
  constexpr int kTries = 3;
  double best[2] = {std::numeric_limits<double>::max(), std::numeric_limits<double>::max()};
  std::vector<float> out;
  for (int i = 0; i < kTries; ++i) {
    for (bool l2 : {false, true}) {
      l2_ = l2;
      const double start = Seconds();
      for (const std::vector<uint32_t>& batch : places) {
        out.resize(batch.size() * kBenchDim);
        LineGather(batch, out.data());
      }
      best[l2] = std::min(best[l2], Seconds() - start);
    }
  }
  l2_ = best[true] < best[false];
}

void BareRows::Gather(std::span<const uint32_t> rows, float* out) const {
  (Avx2() ? BareGather_avx2 : BareGather_base)(l2_, rows_.data(), stride_, nullptr, rows.data(),
                                               rows.size(), out);
}

void BareRows::LineGather(std::span<const uint32_t> places, float* out) const {
  (Avx2() ? BareGather_avx2 : BareGather_base)(l2_, rows_.data(), stride_, entries(), places.data(),
                                               places.size(), out);
}

void BareRows::Adagrad(std::span<const uint32_t> rows, const float* grads) {
  (Avx2() ? BareAdagrad_avx2 : BareAdagrad_base)(l2_, rows_.data(), stride_, nullptr, rows.data(),
                                                 rows.size(), grads);
}

void BareRows::LineAdagrad(std::span<const uint32_t> places, const float* grads) {
  (Avx2() ? BareAdagrad_avx2 : BareAdagrad_base)(l2_, rows_.data(), stride_, entries(),
                                                 places.data(), places.size(), grads);
}

int64_t BareRows::Bytes(int64_t rows, int state_floats) {
  return rows * StrideOf(state_floats) + IndexBytes(rows) + 2 * kHugePage;
}

AbslTable::AbslTable(int64_t rows_expected) {
  for (Shard& shard : shards_) {
    shard.index.reserve(rows_expected / shards_.size());
    shard.rows.reserve(rows_expected / shards_.size() * 21 / 20);
  }
}

template <typename Use>
void AbslTable::ForRuns(std::span<const uint64_t> ids, Use use) {
  auto shard_of = [](uint64_t id) { return BucketOf(id) / (kBuckets / 64); };
  for (size_t i = 0; i < ids.size();) {
    uint32_t s = shard_of(ids[i]);
    Shard& shard = shards_[s];
    absl::MutexLock lock(&shard.mu);
    for (; i < ids.size() && shard_of(ids[i]) == s; ++i) use(shard, i);
  }
}

void AbslTable::LookupOrCreate(std::span<const uint64_t> ids, float* weights) {
  ForRuns(ids, [&](Shard& shard, size_t i) {
    auto [it, made] = shard.index.try_emplace(ids[i], shard.rows.size());
    if (made) {
      Row& row = shard.rows.emplace_back();
      for (int j = 0; j < kBenchDim; ++j) row.weights[j] = row.state[j] = 0.01f;
    }
    memcpy(weights + i * kBenchDim, shard.rows[it->second].weights, sizeof(Row::weights));
  });
}

void AbslTable::Adagrad(std::span<const uint64_t> ids, const float* grads) {
  ForRuns(ids, [&](Shard& shard, size_t i) {
    auto it = shard.index.find(ids[i]);
    if (it == shard.index.end()) return;
    Row& row = shard.rows[it->second];
    for (int j = 0; j < kBenchDim; j += 4) {
      __m128 g = _mm_loadu_ps(grads + i * kBenchDim + j);
      __m128 state = _mm_add_ps(_mm_loadu_ps(row.state + j), _mm_mul_ps(g, g));
      __m128 root = _mm_add_ps(_mm_sqrt_ps(state), _mm_set1_ps(1e-10f));
      __m128 step = _mm_div_ps(_mm_mul_ps(_mm_set1_ps(0.01f), g), root);
      _mm_storeu_ps(row.state + j, state);
      _mm_storeu_ps(row.weights + j, _mm_sub_ps(_mm_loadu_ps(row.weights + j), step));
    }
  });
}

}  // namespace starling
