#include "dense_net/shared_product.h"

#include <algorithm>
#include <array>

namespace starling {
namespace {

constexpr int kSlotsAPart = 4;   // A part's slots share a pass over the output's gradients,
constexpr int kRowsAtOnce = 64;  // so many rows of which stay in L2.

}  // namespace

// Parts of the state.
struct SharedProduct::Places {
  Real* packed;       // W.
  Real* rest;         // Its rows that no slot shares, one after the other,
  Real* rest_packed;  // packed,
  Real* rest_back;    // and packed transposed.
  Real* slots_back;   // The rows of each shared slot, packed transposed.
  Real* vectors;      // By slot (count, dim): distinct vectors; in the end their gradients.
  Real* products;     // (vectors, n): theirs; in the end the output's gradients by vector.
  Real* gradients;    // (rows, n), of the output.
  Real* last;         // (vectors, kGemmPanel): for a view of `products`.
  int64_t floats;     // Of all.
};

SharedProduct::Places SharedProduct::Place(const Step& step, Real* state) const {
  const SharedSlots& shared = *step.shared;
  const int rest = RestWidth(step);
  int64_t back = 0, vectors = 0, at = 0;
  for (const SharedSlot& slot : shared.slots) {
    back += PackedGemmFloats(n_, slot.dim);
    vectors += int64_t{slot.count} * slot.dim;
  }
  const auto take = [&](int64_t floats) {
    Real* place = state + at;
    at += (floats + kGemmPanel - 1) / kGemmPanel * kGemmPanel;
    return place;
  };
  Places places;
  places.packed = take(PackedGemmFloats(k_, n_));
  places.rest = take(int64_t{rest} * n_);
  places.rest_packed = take(PackedGemmFloats(rest, n_));
  places.rest_back = take(PackedGemmFloats(n_, rest));
  places.slots_back = take(back);
  places.vectors = take(vectors);
  places.products = take(shared.vectors * n_);
  places.gradients = take(int64_t{step.batch->rows} * n_);
  places.last = take(n_ % kGemmPanel == 0 ? 0 : shared.vectors * kGemmPanel);
  places.floats = at;
  return places;
}

int SharedProduct::RestWidth(const Step& step) const {
  int width = 0;
  ForRest(step, [&](int, int, int w) { width += w; });
  return width;
}

// Calls fn(column of x, column among the rest, width) for the ranges that no slot shares.
template <typename Fn>
void SharedProduct::ForRest(const Step& step, const Fn& fn) const {
  int at = 0;
  for (const ColumnRange& range : step.shared->rest) {
    fn(range.begin, at, range.width);
    at += range.width;
  }
  if (k_ > embedding_) fn(embedding_, at, k_ - embedding_);
}

// Calls fn(slot, floats of `vectors` before it, floats of `slots_back` before it) for a part's
// slots.
template <typename Fn>
void SharedProduct::ForSlots(const Step& step, int part, const Fn& fn) const {
  const std::vector<SharedSlot>& slots = step.shared->slots;
  int64_t vectors = 0, back = 0;
  for (int s = 0; s < std::min<int>(slots.size(), (part + 1) * kSlotsAPart); ++s) {
    if (s >= part * kSlotsAPart) fn(slots[s], vectors, back);
    vectors += int64_t{slots[s].count} * slots[s].dim;
    back += PackedGemmFloats(n_, slots[s].dim);
  }
}

int64_t SharedProduct::StateFloats(const Step& step) const { return Place(step, nullptr).floats; }

int64_t SharedProduct::ScratchFloats(int tile) const {
  return std::max(PackedGemmFloats(tile, n_), int64_t{tile} * k_);
}

int SharedProduct::Parts(const Step& step) const {
  return static_cast<int>((step.shared->slots.size() + kSlotsAPart - 1) / kSlotsAPart);
}

void SharedProduct::Prepare(const Step& step, Real* state) const {
  const Places places = Place(step, state);
  const Device& device = *step.device;
  const Real* w = step.params + weight_;
  const int rest = RestWidth(step);
  device.PackGemmB(k_, n_, w, n_, 1, places.packed);
  ForRest(step, [&](int column, int at, int width) {
    device.kernels().copy(int64_t{width} * n_, w + int64_t{column} * n_,
                          places.rest + int64_t{at} * n_, false);
  });
  device.PackGemmB(rest, n_, places.rest, n_, 1, places.rest_packed);
  device.PackGemmB(n_, rest, places.rest, 1, n_, places.rest_back);
}

void SharedProduct::BeforeTiles(const Step& step, int part, Real* state) const {
  const Places places = Place(step, state);
  const Device& device = *step.device;
  const GemmB w = PackedGemmB(k_, n_, places.packed);
  ForSlots(step, part, [&](const SharedSlot& slot, int64_t vector, int64_t back) {
    Real* vectors = places.vectors + vector;
    Real* products = places.products + slot.first * n_;
    step.shared->Pool(slot, device, vectors);
    const int64_t skipped = int64_t{slot.column} * kGemmPanel;
    device.Gemm(slot.count, n_, slot.dim, {vectors, slot.dim, 1},
                {w.data + skipped, w.panel_stride, w.row_stride, w.last + skipped},
                GemmStart::kZero, nullptr, products);
    device.kernels().fill(n_, 0, products + int64_t{slot.count} * n_);
    device.PackGemmB(n_, slot.dim, step.params + weight_ + int64_t{slot.column} * n_, 1, n_,
                     places.slots_back + back);
  });
}

void SharedProduct::Forward(const OpTile& tile, const Real* bias) const {
  const Step& step = *tile.step;
  const Places places = Place(step, tile.state);
  const int rest = RestWidth(step);
  ForRest(step, [&](int column, int at, int width) {
    tile.fields().copy_rows(tile.rows, width, {tile.in[0] + column, k_}, {tile.scratch + at, rest},
                            false);
  });
  tile.device().Gemm(tile.rows, n_, rest, {tile.scratch, rest, 1},
                     PackedGemmB(rest, n_, places.rest_packed),
                     bias == nullptr ? GemmStart::kZero : GemmStart::kBias, bias, tile.out);
  const std::vector<SharedSlot>& slots = step.shared->slots;
  std::array<GatheredRows, 8> from;
  for (size_t s = 0; s < slots.size(); s += from.size()) {
    const size_t count = std::min(from.size(), slots.size() - s);
    for (size_t i = 0; i < count; ++i) {
      from[i] = {places.products + slots[s + i].first * n_,
                 slots[s + i].vector_of_row + tile.first};
    }
    tile.fields().add_gathered(tile.rows, n_, static_cast<int>(count), from.data(), tile.out);
  }
}

void SharedProduct::Backward(const OpTile& tile) const {
  const Step& step = *tile.step;
  const Places places = Place(step, tile.state);
  const int m = tile.rows, rest = RestWidth(step);
  tile.kernels().copy(int64_t{m} * n_, tile.out_grad, places.gradients + tile.first * n_, false);
  const GemmB g = tile.device().PackGemmB(m, n_, tile.out_grad, n_, 1, tile.scratch);
  ForRest(step, [&](int column, int, int width) {
    tile.device().Gemm(width, n_, m, {tile.in[0] + column, 1, k_}, g, GemmStart::kAdd, nullptr,
                       tile.param_grads + weight_ + int64_t{column} * n_);
  });
  if (tile.in_grad[0] == nullptr) return;
  tile.device().Gemm(m, rest, n_, {tile.out_grad, n_, 1}, PackedGemmB(n_, rest, places.rest_back),
                     GemmStart::kZero, nullptr, tile.scratch);
  int in_rows = 0;
  SharedSlots::ForColumns(step.shared, embedding_, k_, [&](int, int width) { in_rows += width; });
  if (!tile.in_add[0] && in_rows > rest) {  // What is shared gets nothing here.
    tile.kernels().fill(int64_t{m} * k_, 0, tile.in_grad[0]);
  }
  ForRest(step, [&](int column, int at, int width) {
    tile.fields().copy_rows(m, width, {tile.scratch + at, rest}, {tile.in_grad[0] + column, k_},
                            tile.in_add[0]);
  });
}

void SharedProduct::AfterTiles(const Step& step, int part, Real* state, Real* param_grads) const {
  const Places places = Place(step, state);
  const Device& device = *step.device;
  const int rows = static_cast<int>(step.batch->rows);
  ForSlots(step, part, [&](const SharedSlot& slot, int64_t, int64_t) {
    device.kernels().fill(int64_t{slot.count + 1} * n_, 0, places.products + slot.first * n_);
  });
  for (int row = 0; row < rows; row += kRowsAtOnce) {
    ForSlots(step, part, [&](const SharedSlot& slot, int64_t, int64_t) {
      device.fields().scatter_add(std::min(kRowsAtOnce, rows - row), n_, slot.vector_of_row + row,
                                  {places.gradients + int64_t{row} * n_, n_},
                                  {places.products + slot.first * n_, n_});
    });
  }
  ForSlots(step, part, [&](const SharedSlot& slot, int64_t vector, int64_t back) {
    Real* vectors = places.vectors + vector;
    const Real* sums = places.products + slot.first * n_;
    const GemmB b = device.ViewGemmB(slot.count, n_, sums, places.last + slot.first * kGemmPanel);
    device.Gemm(slot.dim, n_, slot.count, {vectors, 1, slot.dim}, b, GemmStart::kAdd, nullptr,
                param_grads + weight_ + int64_t{slot.column} * n_);
    device.Gemm(slot.count, slot.dim, n_, {sums, n_, 1},
                PackedGemmB(n_, slot.dim, places.slots_back + back), GemmStart::kZero, nullptr,
                vectors);
    device.fields().scatter_add(slot.count, slot.dim, slot.first_row, {vectors, slot.dim},
                                {step.shared->gradient + slot.column, step.shared->stride});
  });
}

}  // namespace starling
