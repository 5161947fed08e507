#include <utility>

#include "base/hash.h"
#include "base/random.h"
#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

class DropoutOp : public Op {
 public:
  DropoutOp(std::string name, Value x, double share)
      : Op(std::move(name), {x}, x.width),
        key_(HashBytes(this->name(), 0)),
        keep_(static_cast<uint32_t>((1.0 - share) * 4294967295.0)),
        scale_(static_cast<Real>(1.0 / (1.0 - share))) {}

  Fusing fusing() const override { return Fusing::kTail; }

  double ElementFlops() const override { return 0; }  // It is no part of scoring.
  void Forward(const OpTile& tile) const override {
    if (tile.step->training) return Mask(tile, tile.in[0], tile.out, false);
    tile.kernels().copy(static_cast<int64_t>(tile.rows) * width(), tile.in[0], tile.out, false);
  }
  void Backward(const OpTile& tile) const override {
    if (tile.in_grad[0] != nullptr) Mask(tile, tile.out_grad, tile.in_grad[0], tile.in_add[0]);
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph*) const override {
    return in[0];
  }

 private:
  void Mask(const OpTile& tile, const Real* x, Real* out, bool add) const {
    tile.kernels().dropout(tile.rows, width(), Mix64(tile.step->seed) ^ key_,
                           tile.step->JointRow(sequence(), tile.first), keep_, scale_, x, out, add);
  }

  const uint64_t key_;
  const uint32_t keep_;  // Of 2^32 - 1.
  const Real scale_;
};

}  // namespace

Value Dropout(GraphBuilder* graph, std::string name, Value x, double share) {
  return graph->Append(std::make_unique<DropoutOp>(std::move(name), x, share));
}

}  // namespace starling
