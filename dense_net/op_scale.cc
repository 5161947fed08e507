#include <algorithm>
#include <utility>

#include "dense_net/kernels.h"
#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

class ScaleRowsOp : public Op {
 public:
  ScaleRowsOp(std::string name, Value scale, Value x) : Op(std::move(name), {scale, x}, x.width) {}

  void Forward(const OpTile& tile) const override {
    for (int i = 0; i < tile.rows; ++i) {
      const int64_t at = int64_t{i} * width();
      for (int j = 0; j < width(); ++j) tile.out[at + j] = tile.in[0][i] * tile.in[1][at + j];
    }
  }
  void Backward(const OpTile& tile) const override {
    for (int i = 0; i < tile.rows; ++i) {
      const Real* x = tile.in[1] + int64_t{i} * width();
      const Real* g = tile.out_grad + int64_t{i} * width();
      Real dot = 0;
      for (int j = 0; j < width(); ++j) dot += g[j] * x[j];
      if (Real* scale = tile.in_grad[0]) scale[i] = tile.in_add[0] ? scale[i] + dot : dot;
      if (tile.in_grad[1] == nullptr) continue;
      Real* dx = tile.in_grad[1] + int64_t{i} * width();
      if (!tile.in_add[1]) std::fill_n(dx, width(), Real{0});
      for (int j = 0; j < width(); ++j) dx[j] += tile.in[0][i] * g[j];
    }
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    return onnx->Node("Mul", in);
  }
};

}  // namespace

Value ScaleRows(GraphBuilder* graph, std::string name, Value scale, Value x) {
  return graph->Append(std::make_unique<ScaleRowsOp>(std::move(name), scale, x));
}

}  // namespace starling
