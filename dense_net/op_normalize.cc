#include <cmath>
#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"
#include "dense_net/real.h"

namespace starling {
namespace {

constexpr double kSquareMin = 1e-12;  // A vector of zeros stays one.

class NormalizeOp : public Op {
 public:
  NormalizeOp(std::string name, Value x) : Op(std::move(name), {x}, x.width) {}

  void Forward(const OpTile& tile) const override {
    for (int i = 0; i < tile.rows; ++i) {
      const Real* x = tile.in[0] + int64_t{i} * width();
      const Real scale = Scale(x);
      for (int j = 0; j < width(); ++j) tile.out[int64_t{i} * width() + j] = scale * x[j];
    }
  }

  // scale (g - y (y . g)).
  void Backward(const OpTile& tile) const override {
    if (tile.in_grad[0] == nullptr) return;
    for (int i = 0; i < tile.rows; ++i) {
      const int64_t row = int64_t{i} * width();
      const Real* y = tile.out + row;
      const Real* g = tile.out_grad + row;
      Real* out = tile.in_grad[0] + row;
      const Real scale = Scale(tile.in[0] + row);
      Real dot = 0;
      for (int j = 0; j < width(); ++j) dot += y[j] * g[j];
      for (int j = 0; j < width(); ++j) {
        out[j] = (tile.in_add[0] ? out[j] : 0) + scale * (g[j] - y[j] * dot);
      }
    }
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::string least = onnx->Float(static_cast<float>(kSquareMin));
    const std::string square = onnx->Node("Add", {onnx->Dot(in[0], in[0]), least});
    return onnx->Node("Div", {in[0], onnx->Node("Sqrt", {square})});
  }

 private:
  Real Scale(const Real* x) const {
    double square = kSquareMin;
    for (int j = 0; j < width(); ++j) square += double{x[j]} * x[j];
    return static_cast<Real>(1.0 / std::sqrt(square));
  }
};

}  // namespace

Value Normalize(GraphBuilder* graph, std::string name, Value x) {
  return graph->Append(std::make_unique<NormalizeOp>(std::move(name), x));
}

}  // namespace starling
