#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

int WidthOf(const std::vector<ColumnRange>& ranges) {
  int width = 0;
  for (const ColumnRange& range : ranges) width += range.width;
  return width;
}

class ColumnsOp : public Op {
 public:
  ColumnsOp(std::string name, Value x, std::vector<ColumnRange> ranges)
      : Op(std::move(name), {x}, WidthOf(ranges)), x_width_(x.width), ranges_(std::move(ranges)) {}

  double ElementFlops() const override { return 0; }
  void Forward(const OpTile& tile) const override {
    Real* out = tile.out;
    for (const ColumnRange& range : ranges_) {
      tile.fields().copy_rows(tile.rows, range.width, {tile.in[0] + range.begin, x_width_},
                              {out, width()}, false);
      out += range.width;
    }
  }

  void Backward(const OpTile& tile) const override {
    if (tile.in_grad[0] == nullptr) return;
    if (!tile.in_add[0]) {
      tile.kernels().fill(int64_t{tile.rows} * x_width_, 0, tile.in_grad[0]);
    }
    const Real* g = tile.out_grad;
    for (const ColumnRange& range : ranges_) {
      tile.fields().copy_rows(tile.rows, range.width, {g, width()},
                              {tile.in_grad[0] + range.begin, x_width_}, true);
      g += range.width;
    }
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    std::vector<int64_t> columns;
    for (const ColumnRange& range : ranges_) {
      for (int j = 0; j < range.width; ++j) columns.push_back(range.begin + j);
    }
    return onnx->Gather(in[0], columns);
  }

 private:
  const int x_width_;
  const std::vector<ColumnRange> ranges_;
};

}  // namespace

Value Columns(GraphBuilder* graph, std::string name, Value x, std::vector<ColumnRange> ranges) {
  return graph->Append(std::make_unique<ColumnsOp>(std::move(name), x, std::move(ranges)));
}

}  // namespace starling
