#include "embedding_store/row_layout.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/hash.h"
#include "base/random.h"
#include "base/status.h"
#include "embedding_store/row_init.h"

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

FloatType TypeOf(TableOptions::Dtype dtype) {
  switch (dtype) {
    case TableOptions::FP16:
      return FloatType::kFp16;
    case TableOptions::BF16:
      return FloatType::kBf16;
    case TableOptions::INT8:
      return FloatType::kInt8;
    case TableOptions::FP32:
      break;
  }
  return FloatType::kFp32;
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
  layout.type_ = TypeOf(spec.options().dtype());
  for (const SegmentSpec& segment_spec : spec.segments()) {
    ASSIGN_OR_RETURN(Segment segment, MakeSegment(spec, segment_spec));
    segment.weight_offset = layout.width_;
    segment.state_offset = layout.state_size_;
    segment.body_offset = layout.weight_bytes_;
    layout.width_ += segment.dim;
    layout.state_size_ += segment.state_size;
    layout.weight_bytes_ += EncodedBytes(layout.type_, segment.dim);
    layout.segments_.push_back(std::move(segment));
  }
  return layout;
}

void RowLayout::InitRow(uint64_t table_seed, uint64_t id, std::span<float> row) const {
  const uint64_t key = RandomBits(table_seed, id);
  for (const Segment& s : segments_) {
    float* weights = row.data() + s.weight_offset;
    if (s.init == 0) {
      std::fill_n(weights, s.dim, 0.0f);
    } else {
      FillNormal(key, s.weight_offset, s.init, {weights, static_cast<size_t>(s.dim)});
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

// ---- The body ----

namespace {

// Room for one row in its plain form, of the calling thread.
std::span<float> Scratch(size_t floats) {
  thread_local std::vector<float> scratch;
  if (scratch.size() < floats) scratch.resize(floats);
  return std::span(scratch).first(floats);
}

}  // namespace

void RowLayout::DecodeWeights(const char* body, float* weights) const {
  for (const Segment& s : segments_) {
    Decode(type_, body + s.body_offset, {weights + s.weight_offset, static_cast<size_t>(s.dim)});
  }
}

void RowLayout::EncodeWeights(const float* weights, uint64_t key, char* body) const {
  for (int i = 0; i < width_; ++i)
    key = (key ^ std::bit_cast<uint32_t>(weights[i])) * 0x9E3779B97F4A7C15ull;
  for (const Segment& s : segments_) {
    Encode(type_, {weights + s.weight_offset, static_cast<size_t>(s.dim)},
           Mix64(key + s.weight_offset), body + s.body_offset);
  }
}

void RowLayout::Unpack(const char* body, std::span<float> floats) const {
  if (plain()) {
    std::memcpy(floats.data(), body, body_bytes());
    return;
  }
  DecodeWeights(body, floats.data());
  std::memcpy(floats.data() + width_, body + weight_bytes_, state_size_ * sizeof(float));
}

void RowLayout::Pack(std::span<const float> floats, char* body) const {
  if (plain()) {
    std::memcpy(body, floats.data(), body_bytes());
    return;
  }
  for (const Segment& s : segments_) {
    EncodeNearest(type_, floats.subspan(s.weight_offset, s.dim), body + s.body_offset);
  }
  std::memcpy(body + weight_bytes_, floats.data() + width_, state_size_ * sizeof(float));
}

void RowLayout::Init(uint64_t table_seed, uint64_t id, float steps, char* body) const {
  std::span<float> row =
      plain() ? std::span(reinterpret_cast<float*>(body), floats()) : Scratch(floats());
  InitRow(table_seed, id, row);
  if (steps > 0) SetSteps(steps, row);
  if (!plain()) Pack(row, body);
}

void RowLayout::Step(float lr_scale, uint64_t key, char* body, const float* grad) const {
  if (plain()) {
    const RowToStep row = PlainRow(body, grad);
    return StepPlain(lr_scale, {&row, 1});
  }
  std::span<float> weights = Scratch(width_), state = State(body);
  DecodeWeights(body, weights.data());
  for (const Segment& s : segments_) {
    s.optimizer->Step(lr_scale, weights.subspan(s.weight_offset, s.dim),
                      state.subspan(s.state_offset, s.state_size),
                      {grad + s.weight_offset, static_cast<size_t>(s.dim)});
  }
  EncodeWeights(weights.data(), key, body);
}

void RowLayout::StepPlain(float lr_scale, std::span<const RowToStep> rows) const {
  if (segments_.size() == 1) return segments_[0].optimizer->Update(width_, lr_scale, rows);
  constexpr size_t kAtOnce = 16;
  std::array<RowToStep, kAtOnce> parts;
  for (; !rows.empty(); rows = rows.subspan(std::min(kAtOnce, rows.size()))) {
    const size_t n = std::min(kAtOnce, rows.size());
    for (const Segment& s : segments_) {
      for (size_t i = 0; i < n; ++i) {
        parts[i] = {rows[i].weights + s.weight_offset, rows[i].state + s.state_offset,
                    rows[i].grad + s.weight_offset};
      }
      s.optimizer->Update(s.dim, lr_scale, std::span(parts).first(n));
    }
  }
}

void RowLayout::AddDelta(uint64_t key, char* body, std::span<const float> delta) const {
  std::span<float> weights =
      plain() ? std::span(reinterpret_cast<float*>(body), width_) : Scratch(width_);
  if (!plain()) DecodeWeights(body, weights.data());
  for (int i = 0; i < width_; ++i) weights[i] += delta[i];
  if (!plain()) EncodeWeights(weights.data(), key, body);
}

double RowLayout::Norm(const char* body) const {
  std::span<float> weights = Scratch(width_);
  ReadWeights(body, weights.data());
  double squares = 0;
  for (float w : weights) squares += double{w} * w;
  return std::sqrt(squares);
}

}  // namespace starling
