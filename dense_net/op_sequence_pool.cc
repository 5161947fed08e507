#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

class SequencePoolOp : public Op {
 public:
  SequencePoolOp(std::string name, Value x, SequencePooling kind)
      : Op(std::move(name), {x}, x.width), kind_(kind), x_sequence_(x.sequence) {}

  int sequence() const override { return -1; }

  void Forward(const OpTile& tile) const override {
    for (int i = 0; i < tile.rows; ++i) {
      const int64_t begin = tile.PositionsBefore(x_sequence_, i);
      const int64_t end = tile.PositionsBefore(x_sequence_, i + 1);
      Real* out = tile.out + int64_t{i} * width();
      if (begin == end) {
        std::fill_n(out, width(), Real{0});
      } else {
        PoolRow(tile.in[0], begin, end, out);
      }
    }
  }

  void Backward(const OpTile& tile) const override {
    if (tile.in_grad[0] == nullptr) return;
    for (int i = 0; i < tile.rows; ++i) {
      const int64_t begin = tile.PositionsBefore(x_sequence_, i);
      const int64_t end = tile.PositionsBefore(x_sequence_, i + 1);
      const Real* out = tile.out + int64_t{i} * width();
      const Real* g = tile.out_grad + int64_t{i} * width();
      for (int d = 0; d < width() && begin < end; ++d) {
        const int64_t chosen = Chosen(tile.in[0], begin, end, d, out[d]);
        const Real share = kind_ == SequencePooling::kMean ? g[d] / Real(end - begin) : g[d];
        for (int64_t p = begin; p < end; ++p) {
          Real* to = tile.in_grad[0] + p * width() + d;
          const Real add = chosen < 0 || chosen == p ? share : 0;
          *to = tile.in_add[0] ? *to + add : add;
        }
      }
    }
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::string x = onnx->Unflatten(in[0], x_sequence_, width());
    if (kind_ == SequencePooling::kLast) {
      return onnx->Sum(onnx->Where(onnx->IsLast(x_sequence_), x, 0), 1, false);
    }
    const std::string is = onnx->IsPosition(x_sequence_);
    const std::string lengths = onnx->Reshape(onnx->Lengths(x_sequence_), {-1, 1});
    if (kind_ == SequencePooling::kMax) {
      const std::string most =
          onnx->Node("ReduceMax", {onnx->Where(is, x, std::numeric_limits<float>::lowest())},
                     {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{0}}});
      return onnx->Where(onnx->Node("Greater", {lengths, onnx->Ints({0})}), most, 0);
    }
    const std::string sum = onnx->Sum(onnx->Where(is, x, 0), 1, false);
    if (kind_ == SequencePooling::kSum) return sum;
    const std::string count = onnx->Node("Max", {lengths, onnx->Ints({1})});
    return onnx->Node("Div", {sum, onnx->Node("Cast", {count}, {{"to", int64_t{1}}})});
  }

 private:
  void PoolRow(const Real* x, int64_t begin, int64_t end, Real* out) const {
    if (kind_ == SequencePooling::kLast) begin = end - 1;
    std::copy_n(x + begin * width(), width(), out);
    for (int64_t p = begin + 1; p < end; ++p) {
      const Real* from = x + p * width();
      for (int d = 0; d < width(); ++d) {
        if (kind_ != SequencePooling::kMax) {
          out[d] += from[d];
        } else if (from[d] > out[d] || std::isnan(from[d])) {  // A NaN must stay one.
          out[d] = from[d];
        }
      }
    }
    if (kind_ != SequencePooling::kMean) return;
    for (int d = 0; d < width(); ++d) out[d] /= Real(end - begin);
  }

  // The one position that the gradient of column d goes to; -1: to all.
  int64_t Chosen(const Real* x, int64_t begin, int64_t end, int d, Real out) const {
    if (kind_ == SequencePooling::kLast) return end - 1;
    if (kind_ != SequencePooling::kMax) return -1;
    int64_t p = begin;
    while (p + 1 < end && x[p * width() + d] != out) ++p;
    return p;
  }

  const SequencePooling kind_;
  const int x_sequence_;
};

}  // namespace

Value SequencePool(GraphBuilder* graph, std::string name, Value x, SequencePooling kind) {
  return graph->Append(std::make_unique<SequencePoolOp>(std::move(name), x, kind));
}

}  // namespace starling
