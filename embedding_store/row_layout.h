// RowLayout: what stands where inside a row. The seam between the table, which
// moves rows as opaque bytes, and optimisers, formats and exporters.
//
// In its plain form, which files, exports and tests use, a row is floats: the
// weights of all segments in order, then the optimiser state of all segments.
// In memory and in the cold tier a row's body is the same with the weights of
// each segment encoded as the table's dtype says; state is always fp32.
//
// Thread safety: const after Create; any thread.
#pragma once

#include <emmintrin.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/narrow_float.h"
#include "base/optimizer.h"
#include "embedding_store/table.pb.h"

namespace starling {

struct RowMeta {
  int64_t event_time = 0;  // Seconds: latest event that touched the row; 0: unknown.
  uint32_t frequency = 0;  // Impressions seen since the row exists; saturates at 2^24 - 1.
  uint32_t epoch = 0;      // Snapshot epoch of the last write.
  bool operator==(const RowMeta&) const = default;
};
static_assert(sizeof(RowMeta) == 16);

struct Segment {
  int dim = 0;
  int weight_offset = 0;  // Floats from the start of the weights.
  int state_offset = 0;   // Floats from the start of the state.
  int state_size = 0;
  int body_offset = 0;  // Bytes from the start of the body to the encoded weights.
  float init = 0;
  std::shared_ptr<const Optimizer> optimizer;  // Layouts are copied; it is const.
};

// The seed of all row inits of a table: a function of the spec's seed and the table's name.
uint64_t TableSeed(const TableSpec& spec);

// Copies n floats from a row, which is aligned to 4 bytes. Where it is inlined
// decides about the registers.
[[gnu::always_inline]] inline void CopyFloats(const char* from, int n, float* to) {
  typedef float Floats __attribute__((vector_size(32), aligned(4), may_alias));
  int i = 0;
  for (; i + 8 <= n; i += 8) {
    *reinterpret_cast<Floats*>(to + i) = *reinterpret_cast<const Floats*>(from + 4 * i);
  }
  for (; i < n; ++i) to[i] = reinterpret_cast<const float*>(from)[i];
}

class RowLayout {
 public:
  // InvalidArgument if there is no segment, a dim is outside 1..512 or a
  // segment has no optimizer, or one with a bad option.
  static absl::StatusOr<RowLayout> Create(const TableSpec& spec);

  const std::vector<Segment>& segments() const { return segments_; }
  int width() const { return width_; }            // Weights per row.
  int state_size() const { return state_size_; }  // State floats per row.
  int floats() const { return width_ + state_size_; }

  // ---- The plain form: weights, then state ----
  // A new row for `id`: weights by (seed, table name, id), state as the optimisers start.
  void InitRow(uint64_t table_seed, uint64_t id, std::span<float> row) const;
  // Sets the step counters of a new row, for the optimisers that have one.
  void SetSteps(float steps, std::span<float> row) const;
  // One step of every segment's optimiser. `row` is weights + state, `grad` (width).
  void Apply(float lr_scale, std::span<float> row, std::span<const float> grad) const;

  // ---- The body of a row in memory ----
  int weight_bytes() const { return weight_bytes_; }
  int body_bytes() const { return weight_bytes_ + state_size_ * 4; }
  bool plain() const { return type_ == FloatType::kFp32; }  // The body is the plain form.

  void ReadWeights(const char* body, float* weights) const {
    if (plain()) return CopyFloats(body, width_, weights);
    DecodeWeights(body, weights);
  }
  void Unpack(const char* body, std::span<float> floats) const;
  // Rounds to nearest: what was unpacked packs into the same bytes.
  void Pack(std::span<const float> floats, char* body) const;
  // As InitRow, SetSteps and Apply. Narrow weights are rounded at random by `key` (a number of
  // the row's own) and their new values, so a replay rounds alike.
  void Init(uint64_t table_seed, uint64_t id, float steps, char* body) const;
  void Step(float lr_scale, uint64_t key, char* body, const float* grad) const;
  // The same for many rows whose body is the plain form, which spares the calls.
  RowToStep PlainRow(char* body, const float* grad) const {
    float* const weights = reinterpret_cast<float*>(body);
    return {weights, weights + width_, grad};
  }
  void StepPlain(float lr_scale, std::span<const RowToStep> rows) const;
  // Adds `delta` (width) to the weights; the state stays.
  void AddDelta(uint64_t key, char* body, std::span<const float> delta) const;
  double Norm(const char* body) const;  // Of all weights.

 private:
  void DecodeWeights(const char* body, float* weights) const;
  void EncodeWeights(const float* weights, uint64_t key, char* body) const;
  std::span<float> State(char* body) const {
    return {reinterpret_cast<float*>(body + weight_bytes_), static_cast<size_t>(state_size_)};
  }

  std::vector<Segment> segments_;
  FloatType type_ = FloatType::kFp32;
  int width_ = 0;
  int state_size_ = 0;
  int weight_bytes_ = 0;
};

}  // namespace starling
