#include "embedding_store/row_layout.h"

#include <algorithm>

#include "base/hash.h"
#include "base/random.h"
#include "base/status.h"

namespace starling {
namespace {

constexpr int kDimMax = 512;

absl::StatusOr<Segment> MakeSegment(const TableSpec& table, const SegmentSpec& spec) {
  std::string where =
      absl::StrCat("table ", table.options().name(), ": segment ", spec.name(), ": ");
  if (spec.dim() < 1 || spec.dim() > kDimMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, "dim is ", spec.dim(), "; it must be within 1..", kDimMax));
  }
  auto optimizer = Optimizer::Create(spec.optimizer());
  if (!optimizer.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(where, optimizer.status().message()));
  }
  Segment segment;
  segment.dim = spec.dim();
  segment.state_size = (*optimizer)->StateSize(spec.dim());
  segment.init = static_cast<float>(spec.init());
  segment.optimizer = *std::move(optimizer);
  return segment;
}

}  // namespace

uint64_t TableSeed(const TableSpec& spec) {
  const std::string& name = spec.options().name();
  return HashBytes(name, Mix64(spec.seed()));
}

absl::StatusOr<RowLayout> RowLayout::Create(const TableSpec& spec) {
  if (spec.segments().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("table ", spec.options().name(), ": a row needs at least one segment"));
  }
  RowLayout layout;
  for (const SegmentSpec& segment_spec : spec.segments()) {
    ASSIGN_OR_RETURN(Segment segment, MakeSegment(spec, segment_spec));
    segment.weight_offset = layout.width_;
    segment.state_offset = layout.state_size_;
    layout.width_ += segment.dim;
    layout.state_size_ += segment.state_size;
    layout.segments_.push_back(std::move(segment));
  }
  return layout;
}

void RowLayout::InitRow(uint64_t table_seed, uint64_t id, std::span<float> row) const {
  const uint64_t key = RandomBits(table_seed, id);
  for (const Segment& s : segments_) {
    float* weights = row.data() + s.weight_offset;
    std::fill_n(weights, s.dim, 0.0f);
    if (s.init != 0) {
      for (int i = 0; i < s.dim; ++i) {
        weights[i] = static_cast<float>(s.init * RandomNormal(key, s.weight_offset + i));
      }
    }
    s.optimizer->InitState(row.subspan(width_ + s.state_offset, s.state_size));
  }
}

void RowLayout::SetSteps(float steps, std::span<float> row) const {
  for (const Segment& s : segments_) {
    s.optimizer->SetSteps(row.subspan(width_ + s.state_offset, s.state_size), s.dim, steps);
  }
}

void RowLayout::Apply(float lr_scale, std::span<float> row, std::span<const float> grad) const {
  for (const Segment& s : segments_) {
    s.optimizer->Step(lr_scale, row.subspan(s.weight_offset, s.dim),
                      row.subspan(width_ + s.state_offset, s.state_size),
                      grad.subspan(s.weight_offset, s.dim));
  }
}

}  // namespace starling
