#include <algorithm>
#include <utility>

#include "dense_net/head_op.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

// Rows at a time: what the head has written is still in L2 when the next part reads it.
constexpr int kStrip = 96;

// A chain of ops in one place of memory: the head writes it, the others work in it.
class FusedOp : public HeadOp {
 public:
  explicit FusedOp(std::vector<std::unique_ptr<Op>> parts)
      : HeadOp(parts[0]->name(), parts[0]->inputs(), parts.back()->width()),
        parts_(std::move(parts)) {}

  bool trainable() const override { return head().trainable(); }
  double ElementFlops() const override {
    double sum = 0;
    for (const auto& part : parts_) sum += part->ElementFlops();
    return sum;
  }

  void Forward(const OpTile& tile) const override {
    for (int row = 0; row < tile.rows; row += kStrip) {
      OpTile strip = Rows(tile, row, std::min(kStrip, tile.rows - row));
      head().Forward(strip);
      strip.in[0] = strip.out;
      for (size_t p = 1; p < parts_.size(); ++p) parts_[p]->Forward(strip);
    }
  }

  // The tail in strips, in place of the output's gradient; then the head with
  // all rows, since the gradient of its weights is the better for many.
  void Backward(const OpTile& tile) const override {
    for (int row = 0; row < tile.rows; row += kStrip) {
      OpTile strip = Rows(tile, row, std::min(kStrip, tile.rows - row));
      strip.in[0] = strip.out;
      strip.in_grad[0] = strip.out_grad;
      strip.in_add[0] = false;
      for (size_t p = parts_.size() - 1; p > 0; --p) parts_[p]->Backward(strip);
    }
    head().Backward(tile);
  }

 private:
  const Op& head() const override { return *parts_[0]; }

  // Rows [row, row + rows) of a tile.
  OpTile Rows(const OpTile& tile, int row, int rows) const {
    OpTile strip = tile;
    strip.first += row;
    strip.rows = rows;
    strip.in[0] += int64_t{row} * inputs()[0].width;
    strip.out += int64_t{row} * width();
    if (strip.out_grad != nullptr) strip.out_grad += int64_t{row} * width();
    return strip;
  }

  const std::vector<std::unique_ptr<Op>> parts_;
};

}  // namespace

std::unique_ptr<Op> Fused(std::vector<std::unique_ptr<Op>> parts) {
  return std::make_unique<FusedOp>(std::move(parts));
}

}  // namespace starling
