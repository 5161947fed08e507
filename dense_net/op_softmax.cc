#include <algorithm>
#include <cmath>
#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"
#include "dense_net/real.h"

namespace starling {
namespace {

class SoftmaxOp : public Op {
 public:
  SoftmaxOp(std::string name, Value x) : Op(std::move(name), {x}, x.width) {}

  bool in_place() const override { return true; }

  void Forward(const OpTile& tile) const override {
    for (int i = 0; i < tile.rows; ++i) {
      const Real* x = tile.in[0] + int64_t{i} * width();
      Real* y = tile.out + int64_t{i} * width();
      const Real most = *std::max_element(x, x + width());
      Real sum = 0;
      for (int j = 0; j < width(); ++j) sum += y[j] = std::exp(x[j] - most);
      for (int j = 0; j < width(); ++j) y[j] /= sum;
    }
  }

  // y (g - y . g): a function of the output, so the input may be gone.
  void Backward(const OpTile& tile) const override {
    if (tile.in_grad[0] == nullptr) return;
    for (int i = 0; i < tile.rows; ++i) {
      const Real* y = tile.out + int64_t{i} * width();
      const Real* g = tile.out_grad + int64_t{i} * width();
      Real* out = tile.in_grad[0] + int64_t{i} * width();
      Real dot = 0;
      for (int j = 0; j < width(); ++j) dot += y[j] * g[j];
      for (int j = 0; j < width(); ++j) {
        out[j] = (tile.in_add[0] ? out[j] : 0) + y[j] * (g[j] - dot);
      }
    }
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    return onnx->Node("Softmax", in, {{"axis", int64_t{1}}});
  }
};

}  // namespace

Value Softmax(GraphBuilder* graph, std::string name, Value x) {
  return graph->Append(std::make_unique<SoftmaxOp>(std::move(name), x));
}

}  // namespace starling
