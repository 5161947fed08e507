// RowLayout: what stands where inside a row. The seam between the table, which
// moves rows as opaque bytes, and optimisers, formats and exporters.
//
// A row is RowMeta, then the weights of all segments in order, then the
// optimiser state of all segments in order. All floats.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/optimizer.h"
#include "embedding_store/table.pb.h"

namespace starling {

struct RowMeta {
  int64_t event_time = 0;  // Seconds: latest event that touched the row.
  uint32_t frequency = 0;  // Impressions seen since the row exists; saturates.
  uint32_t epoch = 0;      // Snapshot epoch of the last write.
};
static_assert(sizeof(RowMeta) == 16);

struct Segment {
  int dim = 0;
  int weight_offset = 0;  // Floats from the start of the weights.
  int state_offset = 0;   // Floats from the start of the state.
  int state_size = 0;
  float init = 0;
  std::shared_ptr<const Optimizer> optimizer;  // Layouts are copied; it is const.
};

// The seed of all row inits of a table: a function of the spec's seed and the table's name.
uint64_t TableSeed(const TableSpec& spec);

class RowLayout {
 public:
  // InvalidArgument if there is no segment, a dim is outside 1..512 or a
  // segment has no optimizer, or one with a bad option.
  static absl::StatusOr<RowLayout> Create(const TableSpec& spec);

  const std::vector<Segment>& segments() const { return segments_; }
  int width() const { return width_; }            // Weights per row.
  int state_size() const { return state_size_; }  // State floats per row.
  int floats() const { return width_ + state_size_; }

  // A new row for `id`: weights by (seed, table name, id), state as the optimisers start.
  void InitRow(uint64_t table_seed, uint64_t id, std::span<float> row) const;
  // Sets the step counters of a new row, for the optimisers that have one.
  void SetSteps(float steps, std::span<float> row) const;
  // One step of every segment's optimiser. `row` is weights + state, `grad` (width).
  void Apply(float lr_scale, std::span<float> row, std::span<const float> grad) const;

 private:
  std::vector<Segment> segments_;
  int width_ = 0;
  int state_size_ = 0;
};

}  // namespace starling
