#include <algorithm>
#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"
#include "dense_net/real.h"

namespace starling {
namespace {

std::vector<Value> Inputs(Value weights, const std::vector<Value>& experts) {
  std::vector<Value> inputs = {weights};
  inputs.insert(inputs.end(), experts.begin(), experts.end());
  return inputs;
}

// Input 0 holds the weights; the experts follow, side by side in each input.
class MixOp : public Op {
 public:
  MixOp(std::string name, Value weights, const std::vector<Value>& experts, int width)
      : Op(std::move(name), Inputs(weights, experts), width) {}

  void Forward(const OpTile& tile) const override {
    const int gates = inputs()[0].width;
    for (int i = 0; i < tile.rows; ++i) {
      const Real* gate = tile.in[0] + int64_t{i} * gates;
      Real* out = tile.out + int64_t{i} * width();
      std::fill_n(out, width(), Real{0});
      for (size_t v = 1; v < inputs().size(); ++v) {
        const Real* x = tile.in[v] + int64_t{i} * inputs()[v].width;
        for (int e = 0; e < inputs()[v].width; e += width()) {
          const Real w = *gate++;
          for (int j = 0; j < width(); ++j) out[j] += w * x[e + j];
        }
      }
    }
  }

  void Backward(const OpTile& tile) const override {
    const int gates = inputs()[0].width;
    for (int i = 0; i < tile.rows; ++i) {
      const int64_t at = int64_t{i} * gates;
      const Real* g = tile.out_grad + int64_t{i} * width();
      int gate = 0;
      for (size_t v = 1; v < inputs().size(); ++v) {
        const int64_t row = int64_t{i} * inputs()[v].width;
        for (int e = 0; e < inputs()[v].width; e += width(), ++gate) {
          GiveGate(tile, at + gate, g, tile.in[v] + row + e);
          GiveExpert(tile, v, row + e, g, tile.in[0][at + gate]);
        }
      }
    }
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::vector<std::string> experts(in.begin() + 1, in.end());
    const std::string all = onnx->Node("Concat", experts, {{"axis", int64_t{1}}});
    const int64_t gates = inputs()[0].width;
    const std::string weights = onnx->Reshape(in[0], {-1, 1, gates});
    const std::string mixed =
        onnx->Node("MatMul", {weights, onnx->Reshape(all, {-1, gates, width()})});
    return onnx->Reshape(mixed, {-1, width()});
  }

 private:
  void GiveGate(const OpTile& tile, int64_t at, const Real* g, const Real* x) const {
    if (tile.in_grad[0] == nullptr) return;
    Real dot = tile.in_add[0] ? tile.in_grad[0][at] : 0;
    for (int j = 0; j < width(); ++j) dot += g[j] * x[j];
    tile.in_grad[0][at] = dot;
  }
  void GiveExpert(const OpTile& tile, size_t input, int64_t at, const Real* g, Real w) const {
    if (tile.in_grad[input] == nullptr) return;
    Real* out = tile.in_grad[input] + at;
    for (int j = 0; j < width(); ++j) out[j] = (tile.in_add[input] ? out[j] : 0) + w * g[j];
  }
};

}  // namespace

Value Mix(GraphBuilder* graph, std::string name, Value weights, const std::vector<Value>& experts,
          int width) {
  return graph->Append(std::make_unique<MixOp>(std::move(name), weights, experts, width));
}

}  // namespace starling
