#include <algorithm>
#include <utility>

#include "dense_net/head_op.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

// Rows at a time, as in op_fused.cc: u is still in L2 when x0 * u + x reads it.
constexpr int kStrip = 96;

// y = x0 * u + x with u from the head, which is kept for the gradient of x0.
class FusedCrossOp : public HeadOp {
 public:
  FusedCrossOp(std::unique_ptr<Op> head, const Op& cross)
      : HeadOp(cross.name(), {cross.inputs()[0], cross.inputs()[2], head->inputs()[0]},
               cross.width()),
        head_(std::move(head)) {}

  bool trainable() const override { return true; }
  double ElementFlops() const override { return head_->ElementFlops() + 2.0 * width(); }
  int kept_width() const override { return width(); }

  void Forward(const OpTile& tile) const override {
    for (int row = 0; row < tile.rows; row += kStrip) {
      const int64_t at = int64_t{row} * width();
      OpTile strip = Head(tile);
      strip.first += row;
      strip.rows = std::min(kStrip, tile.rows - row);
      strip.in[0] += int64_t{row} * inputs()[2].width;
      strip.out += at;
      head_->Forward(strip);
      tile.kernels().multiply_add(int64_t{strip.rows} * width(), tile.in[0] + at, strip.out,
                                  tile.in[1] + at, tile.out + at);
    }
  }

  // One pass for the gradients of x0, x and u, which takes the place of the
  // output's; then the head with all rows, as in op_fused.cc.
  void Backward(const OpTile& tile) const override {
    const int64_t n = int64_t{tile.rows} * width();
    Real* g = tile.out_grad;
    if (tile.in_grad[0] != nullptr && tile.in_grad[1] != nullptr) {
      tile.kernels().combine_backward(n, tile.in[0], tile.kept, g, tile.in_grad[0], tile.in_add[0],
                                      tile.in_grad[1], tile.in_add[1]);
    } else {
      if (tile.in_grad[0] != nullptr) {
        tile.kernels().multiply(n, g, tile.kept, tile.in_grad[0], tile.in_add[0]);
      }
      if (tile.in_grad[1] != nullptr) {
        tile.kernels().copy(n, g, tile.in_grad[1], tile.in_add[1]);
      }
      tile.kernels().multiply(n, g, tile.in[0], g, false);
    }
    head_->Backward(Head(tile));
  }

 private:
  const Op& head() const override { return *head_; }

  // What the head sees of a tile.
  static OpTile Head(const OpTile& tile) {
    OpTile head = tile;
    head.in[0] = tile.in[2];
    head.in_grad[0] = tile.in_grad[2];
    head.in_add[0] = tile.in_add[2];
    head.out = tile.kept;
    return head;
  }

  const std::unique_ptr<Op> head_;
};

}  // namespace

std::unique_ptr<Op> FusedCross(std::unique_ptr<Op> head, std::unique_ptr<Op> cross) {
  return std::make_unique<FusedCrossOp>(std::move(head), *cross);
}

}  // namespace starling
