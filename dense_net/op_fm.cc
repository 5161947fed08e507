#include "dense_net/kernels.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

class FmOp : public Op {
 public:
  FmOp(Value x, int dim) : Op("fm", {x}, 1), slots_(x.width / dim), dim_(dim) {}

  int64_t ScratchFloats(int) const override { return 2 * int64_t{dim_}; }
  void Forward(const OpTile& tile) const override {
    Kernel().fm(tile.rows, slots_, dim_, tile.in[0], tile.scratch, tile.out);
  }
  void Backward(const OpTile& tile) const override {
    Kernel().fm_backward(tile.rows, slots_, dim_, tile.in[0], tile.out_grad, tile.scratch,
                         tile.in_grad[0], tile.in_add[0]);
  }

 private:
  const int slots_, dim_;
};

}  // namespace

Value FmSecondOrder(GraphBuilder* graph, Value x, int dim) {
  return graph->Append(std::make_unique<FmOp>(x, dim));
}

}  // namespace starling
