// Self-attention of the fields of a row, in two ops, so that dropout can stand
// between them: softmax(Q K' / sqrt(d)), and these weights times V. Q, K and V
// are (fields, heads * d); every head takes its own columns of them.
#include <algorithm>
#include <cmath>
#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

// One head's sizes, and products of its matrices, each of one row of the tile.
struct Head {
  int fields, dim;
  int64_t stride;  // Floats from field to field: heads * dim.

  int64_t PackFloats() const {
    return std::max(PackedGemmFloats(dim, fields), PackedGemmFloats(fields, dim));
  }
  int64_t DenseFloats() const { return int64_t{fields} * std::max(fields, dim); }

  // c (fields, fields) = a b', both (fields, dim).
  void Gram(const Device& device, const Real* a, const Real* b, bool add, Real* pack,
            Real* c) const {
    device.Gemm(fields, fields, dim, {a, stride, 1},
                device.PackGemmB(dim, fields, b, 1, stride, pack),
                add ? GemmStart::kAdd : GemmStart::kZero, nullptr, c);
  }
  // c (fields, dim) = p b or, transposed, p' b: p (fields, fields), b (fields, dim).
  void Apply(const Device& device, const Real* p, bool transposed, const Real* b, bool add,
             Real* pack, Real* dense, Real* c) const {
    const GemmA a = transposed ? GemmA{p, 1, fields} : GemmA{p, fields, 1};
    device.Gemm(fields, dim, fields, a, device.PackGemmB(fields, dim, b, stride, 1, pack),
                GemmStart::kZero, nullptr, dense);
    device.fields().copy_rows(fields, dim, {dense, dim}, {c, stride}, add);
  }
};

class AttentionOp : public Op {
 public:
  AttentionOp(std::string name, std::vector<Value> inputs, int width, int fields, int heads,
              int head_dim)
      : Op(std::move(name), std::move(inputs), width),
        heads_(heads),
        head_{fields, head_dim, int64_t{heads} * head_dim} {}

  int64_t ScratchFloats(int) const override { return head_.PackFloats() + head_.DenseFloats(); }
  double ForwardFlops() const override {
    return 2.0 * heads_ * head_.fields * head_.fields * head_.dim;
  }
  double BackwardFlops(bool) const override { return 2 * ForwardFlops(); }

 protected:
  // Calls fn(offset of the head's columns, offset of its weights) for every row and head.
  template <typename Fn>
  void ForHeads(int rows, const Fn& fn) const {
    const int64_t square = int64_t{head_.fields} * head_.fields;
    for (int i = 0; i < rows; ++i) {
      for (int h = 0; h < heads_; ++h) {
        fn(i * head_.fields * head_.stride + int64_t{h} * head_.dim,
           (int64_t{i} * heads_ + h) * square);
      }
    }
  }
  std::vector<int64_t> OnnxShape() const { return {-1, head_.fields, heads_, head_.dim}; }
  Real* Dense(const OpTile& tile) const { return tile.scratch + head_.PackFloats(); }

  const int heads_;
  const Head head_;
};

class WeightsOp : public AttentionOp {
 public:
  using AttentionOp::AttentionOp;

  double ElementFlops() const override { return (kSoftmaxFlops + 1) * width(); }
  void Forward(const OpTile& tile) const override {
    ForHeads(tile.rows, [&](int64_t at, int64_t weights) {
      Real* p = tile.out + weights;
      head_.Gram(tile.device(), tile.in[0] + at, tile.in[1] + at, false, tile.scratch, p);
      tile.fields().softmax(head_.fields, head_.fields, scale_, p, p);
    });
  }

  void Backward(const OpTile& tile) const override {
    Real* ds = Dense(tile);
    Real* dense = ds + head_.DenseFloats();
    ForHeads(tile.rows, [&](int64_t at, int64_t weights) {
      tile.fields().softmax_backward(head_.fields, head_.fields, scale_, tile.out + weights,
                                     tile.out_grad + weights, ds, false);
      head_.Apply(tile.device(), ds, false, tile.in[1] + at, tile.in_add[0], tile.scratch, dense,
                  tile.in_grad[0] + at);
      head_.Apply(tile.device(), ds, true, tile.in[0] + at, tile.in_add[1], tile.scratch, dense,
                  tile.in_grad[1] + at);
    });
  }
  int64_t ScratchFloats(int) const override { return head_.PackFloats() + 2 * head_.DenseFloats(); }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::string q = onnx->Transpose(onnx->Reshape(in[0], OnnxShape()), {0, 2, 1, 3});
    const std::string k = onnx->Transpose(onnx->Reshape(in[1], OnnxShape()), {0, 2, 3, 1});
    const std::string scale = onnx->Float(static_cast<float>(scale_));
    const std::string logits = onnx->Node("Mul", {onnx->Node("MatMul", {q, k}), scale});
    const std::string weights = onnx->Node("Softmax", {logits}, {{"axis", int64_t{3}}});
    return onnx->Reshape(weights, {-1, width()});
  }

 private:
  const Real scale_ = 1 / std::sqrt(static_cast<Real>(head_.dim));
};

class MixOp : public AttentionOp {
 public:
  using AttentionOp::AttentionOp;

  double ElementFlops() const override { return 0; }
  void Forward(const OpTile& tile) const override {
    ForHeads(tile.rows, [&](int64_t at, int64_t weights) {
      head_.Apply(tile.device(), tile.in[0] + weights, false, tile.in[1] + at, false, tile.scratch,
                  Dense(tile), tile.out + at);
    });
  }
  void Backward(const OpTile& tile) const override {
    ForHeads(tile.rows, [&](int64_t at, int64_t weights) {
      head_.Gram(tile.device(), tile.out_grad + at, tile.in[1] + at, tile.in_add[0], tile.scratch,
                 tile.in_grad[0] + weights);
      head_.Apply(tile.device(), tile.in[0] + weights, true, tile.out_grad + at, tile.in_add[1],
                  tile.scratch, Dense(tile), tile.in_grad[1] + at);
    });
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::string weights = onnx->Reshape(in[0], {-1, heads_, head_.fields, head_.fields});
    const std::string v = onnx->Transpose(onnx->Reshape(in[1], OnnxShape()), {0, 2, 1, 3});
    const std::string mixed = onnx->Node("MatMul", {weights, v});
    return onnx->Reshape(onnx->Transpose(mixed, {0, 2, 1, 3}), {-1, width()});
  }
};

}  // namespace

Value AttentionWeights(GraphBuilder* graph, std::string name, Value q, Value k, int fields,
                       int heads) {
  return graph->Append(std::make_unique<WeightsOp>(std::move(name), std::vector<Value>{q, k},
                                                   heads * fields * fields, fields, heads,
                                                   q.width / fields / heads));
}

Value AttentionMix(GraphBuilder* graph, std::string name, Value weights, Value v, int fields,
                   int heads) {
  return graph->Append(std::make_unique<MixOp>(std::move(name), std::vector<Value>{weights, v},
                                               v.width, fields, heads, v.width / fields / heads));
}

}  // namespace starling
