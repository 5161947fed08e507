// The parts of target attention that are not layers: what its MLP reads, the
// softmax over a row's events, and their weighted sum.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

// Calls fn(row, begin, end) with the positions of each row of the tile.
template <typename Fn>
void ForRows(const OpTile& tile, int sequence, const Fn& fn) {
  for (int i = 0; i < tile.batch_rows; ++i) {
    fn(i, tile.PositionsBefore(sequence, i), tile.PositionsBefore(sequence, i + 1));
  }
}

class AttentionInputOp : public Op {
 public:
  AttentionInputOp(std::string name, Value target, Value events)
      : Op(std::move(name), {target, events}, 4 * target.width),
        d_(target.width),
        sequence_(events.sequence) {}

  int sequence() const override { return sequence_; }

  void Forward(const OpTile& tile) const override {
    ForRows(tile, sequence_, [&](int i, int64_t begin, int64_t end) {
      const Real* q = tile.in[0] + int64_t{i} * d_;
      for (int64_t p = begin; p < end; ++p) {
        const Real* k = tile.in[1] + p * d_;
        Real* out = tile.out + p * width();
        for (int j = 0; j < d_; ++j) {
          out[j] = q[j];
          out[d_ + j] = k[j];
          out[2 * d_ + j] = q[j] - k[j];
          out[3 * d_ + j] = q[j] * k[j];
        }
      }
    });
  }

  void Backward(const OpTile& tile) const override {
    ForRows(tile, sequence_, [&](int i, int64_t begin, int64_t end) {
      const Real* q = tile.in[0] + int64_t{i} * d_;
      Real* dq = tile.in_grad[0] == nullptr ? nullptr : tile.in_grad[0] + int64_t{i} * d_;
      if (dq != nullptr && !tile.in_add[0]) std::fill_n(dq, d_, Real{0});
      for (int64_t p = begin; p < end; ++p) {
        const Real* k = tile.in[1] + p * d_;
        const Real* g = tile.out_grad + p * width();
        for (int j = 0; dq != nullptr && j < d_; ++j) {
          dq[j] += g[j] + g[2 * d_ + j] + g[3 * d_ + j] * k[j];
        }
        if (tile.in_grad[1] == nullptr) continue;
        Real* dk = tile.in_grad[1] + p * d_;
        if (!tile.in_add[1]) std::fill_n(dk, d_, Real{0});
        for (int j = 0; j < d_; ++j) dk[j] += g[d_ + j] - g[2 * d_ + j] + g[3 * d_ + j] * q[j];
      }
    });
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::string q = onnx->Spread(in[0], sequence_, d_);
    return onnx->Node("Concat",
                      {q, in[1], onnx->Node("Sub", {q, in[1]}), onnx->Node("Mul", {q, in[1]})},
                      {{"axis", int64_t{1}}});
  }

 private:
  const int d_, sequence_;
};

class SequenceSoftmaxOp : public Op {
 public:
  SequenceSoftmaxOp(std::string name, Value x) : Op(std::move(name), {x}, 1) {}

  void Forward(const OpTile& tile) const override {
    ForRows(tile, sequence(), [&](int, int64_t begin, int64_t end) {
      if (begin == end) return;
      const Real* x = tile.in[0];
      const Real largest = *std::max_element(x + begin, x + end);
      Real sum = 0;
      for (int64_t p = begin; p < end; ++p) sum += tile.out[p] = std::exp(x[p] - largest);
      for (int64_t p = begin; p < end; ++p) tile.out[p] /= sum;
    });
  }

  void Backward(const OpTile& tile) const override {
    if (tile.in_grad[0] == nullptr) return;
    ForRows(tile, sequence(), [&](int, int64_t begin, int64_t end) {
      Real dot = 0;
      for (int64_t p = begin; p < end; ++p) dot += tile.out_grad[p] * tile.out[p];
      for (int64_t p = begin; p < end; ++p) {
        const Real g = tile.out[p] * (tile.out_grad[p] - dot);
        tile.in_grad[0][p] = tile.in_add[0] ? tile.in_grad[0][p] + g : g;
      }
    });
  }
  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::string is = onnx->IsPosition(sequence());
    const std::string x = onnx->Unflatten(in[0], sequence(), 1);
    const std::string low = onnx->Where(is, x, std::numeric_limits<float>::lowest());
    const std::string weights = onnx->Node("Softmax", {low}, {{"axis", int64_t{1}}});
    return onnx->Flatten(onnx->Where(is, weights, 0), 1);  // A row without positions has none.
  }
};

class WeightedSumOp : public Op {
 public:
  WeightedSumOp(std::string name, Value weights, Value x)
      : Op(std::move(name), {weights, x}, x.width), x_sequence_(x.sequence) {}

  int sequence() const override { return -1; }

  void Forward(const OpTile& tile) const override {
    ForRows(tile, x_sequence_, [&](int i, int64_t begin, int64_t end) {
      Real* out = tile.out + int64_t{i} * width();
      std::fill_n(out, width(), Real{0});
      for (int64_t p = begin; p < end; ++p) {
        const Real* x = tile.in[1] + p * width();
        for (int j = 0; j < width(); ++j) out[j] += tile.in[0][p] * x[j];
      }
    });
  }

  void Backward(const OpTile& tile) const override {
    ForRows(tile, x_sequence_, [&](int i, int64_t begin, int64_t end) {
      const Real* g = tile.out_grad + int64_t{i} * width();
      for (int64_t p = begin; p < end; ++p) {
        const Real* x = tile.in[1] + p * width();
        Real dot = 0;
        for (int j = 0; j < width(); ++j) dot += g[j] * x[j];
        if (Real* dw = tile.in_grad[0]) dw[p] = tile.in_add[0] ? dw[p] + dot : dot;
        if (tile.in_grad[1] == nullptr) continue;
        Real* dx = tile.in_grad[1] + p * width();
        if (!tile.in_add[1]) std::fill_n(dx, width(), Real{0});
        for (int j = 0; j < width(); ++j) dx[j] += tile.in[0][p] * g[j];
      }
    });
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::string product =
        onnx->Unflatten(onnx->Node("Mul", {in[0], in[1]}), x_sequence_, width());
    return onnx->Sum(onnx->Where(onnx->IsPosition(x_sequence_), product, 0), 1, false);
  }

 private:
  const int x_sequence_;
};

}  // namespace

Value AttentionInput(GraphBuilder* graph, std::string name, Value target, Value events) {
  return graph->Append(std::make_unique<AttentionInputOp>(std::move(name), target, events));
}
Value SequenceSoftmax(GraphBuilder* graph, std::string name, Value x) {
  return graph->Append(std::make_unique<SequenceSoftmaxOp>(std::move(name), x));
}
Value WeightedSum(GraphBuilder* graph, std::string name, Value weights, Value x) {
  return graph->Append(std::make_unique<WeightedSumOp>(std::move(name), weights, x));
}

}  // namespace starling
