// A gated recurrent unit along the positions of each row. All rows of a tile
// take a step of time together, in one GEMM over those that have an event there.
//
//   r, u = sigmoid(gates_r + hidden_r), sigmoid(gates_u + hidden_u)
//   n    = tanh(gates_n + r * hidden_n)           hidden = h W + b
//   h'   = (1 - u) * h + u * n                    u scaled by the event's weight, if given
#include <algorithm>
#include <utility>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

class GruOp : public Op {
 public:
  GruOp(std::string name, std::vector<Value> inputs, int hidden, int64_t weight, int64_t bias)
      : Op(std::move(name), std::move(inputs), hidden), weight_(weight), bias_(bias) {}

  bool trainable() const override { return true; }
  double ForwardFlops() const override { return 6.0 * width() * width(); }
  double BackwardFlops(bool) const override { return 18.0 * width() * width(); }

  // The packed weights, and transposed for the backward pass.
  int64_t StateFloats(const Step& step) const override {
    const int h = width();
    return PackedGemmFloats(h, 3 * h) + (step.training ? PackedGemmFloats(3 * h, h) : 0);
  }
  void Prepare(const Step& step, Real* state) const override {
    const int h = width();
    const Real* w = step.params + weight_;
    step.device->PackGemmB(h, 3 * h, w, 3 * h, 1, state);
    if (step.training)
      step.device->PackGemmB(3 * h, h, w, 1, 3 * h, state + PackedGemmFloats(h, 3 * h));
  }
  int64_t ScratchFloats(int tile) const override {
    return int64_t{tile} * 12 * width() + 5 * width() + PackedGemmFloats(tile, 3 * width());
  }

  // Three gates, and the state's step.
  double ElementFlops() const override { return (inputs().size() > 1 ? 11.0 : 10.0) * width(); }
  void Forward(const OpTile& tile) const override {
    const int h = width();
    Real* before = tile.scratch;
    Real* hidden = before + int64_t{tile.batch_rows} * h;
    const Real* bias = tile.step->params + bias_;
    const int64_t steps = Longest(tile);
    for (int64_t t = 0; t < steps; ++t) {
      int active = 0;
      ForActive(tile, t,
                [&](int, int64_t p) { Before(tile, t, p, before + int64_t{active++} * h); });
      tile.device().Gemm(active, 3 * h, h, {before, h, 1}, PackedGemmB(h, 3 * h, tile.state),
                         GemmStart::kBias, bias, hidden);
      active = 0;
      ForActive(tile, t, [&](int, int64_t p) {
        const int64_t row = active++;
        tile.kernels().gru_cell(h, tile.in[0] + p * 3 * h, hidden + row * 3 * h, WeightAt(tile, p),
                                before + row * h, tile.out + p * h);
      });
    }
  }

  void Backward(const OpTile& tile) const override {
    const int h = width(), positions = tile.rows;
    Real* before = tile.scratch;                             // (positions, h)
    Real* hidden = before + int64_t{positions} * h;          // (positions, 3 h)
    Real* g_hidden = hidden + int64_t{positions} * 3 * h;    // (positions, 3 h)
    Real* carry = g_hidden + int64_t{positions} * 3 * h;     // (rows, h): of the state after t,
    Real* packed = carry + int64_t{tile.batch_rows} * h;     // (rows, 3 h)
    Real* back = packed + int64_t{tile.batch_rows} * 3 * h;  // (rows, h)
    Real* cell = back + int64_t{tile.batch_rows} * h;        // (5 h)
    Recompute(tile, before, hidden);
    tile.kernels().fill(int64_t{tile.batch_rows} * h, 0, carry);
    for (int64_t t = Longest(tile) - 1; t >= 0; --t) {
      int active = 0;
      ForActive(tile, t, [&](int i, int64_t p) {
        CellBackward(tile, p, before + p * h, hidden + p * 3 * h, carry + int64_t{i} * h,
                     g_hidden + p * 3 * h, cell);
        tile.kernels().copy(3 * h, g_hidden + p * 3 * h, packed + int64_t{active++} * 3 * h, false);
      });
      tile.device().Gemm(active, h, 3 * h, {packed, 3 * h, 1},
                         PackedGemmB(3 * h, h, tile.state + PackedGemmFloats(h, 3 * h)),
                         GemmStart::kZero, nullptr, back);
      active = 0;
      ForActive(tile, t, [&](int i, int64_t) {
        tile.kernels().copy(h, back + int64_t{active++} * h, carry + int64_t{i} * h, true);
      });
    }
    Real* grads = tile.param_grads;
    tile.kernels().add_rows(positions, 3 * h, g_hidden, nullptr, grads + bias_);
    const GemmB g = tile.device().PackGemmB(positions, 3 * h, g_hidden, 3 * h, 1, carry);
    tile.device().Gemm(h, 3 * h, positions, {before, 1, h}, g, GemmStart::kAdd, nullptr,
                       grads + weight_);
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const int64_t h = width();
    const bool weighted = in.size() > 1;
    auto part = [&](const std::string& x, int gate) {
      return onnx->Slice(x, gate * h, (gate + 1) * h);
    };
    auto gate = [&](const std::string& gates, const std::string& hidden, int which) {
      return onnx->Node("Sigmoid", {onnx->Node("Add", {part(gates, which), part(hidden, which)})});
    };
    auto step = [&](const std::string& before, const std::vector<std::string>& at) {
      const std::string product = onnx->Node("MatMul", {before, onnx->Param(weight_)});
      const std::string hidden = onnx->Node("Add", {product, onnx->Param(bias_)});
      const std::string reset = gate(at[0], hidden, 0);
      std::string update = gate(at[0], hidden, 1);
      if (weighted) update = onnx->Node("Mul", {update, at[1]});
      const std::string past = onnx->Node("Mul", {reset, part(hidden, 2)});
      const std::string fresh = onnx->Node("Tanh", {onnx->Node("Add", {part(at[0], 2), past})});
      const std::string change = onnx->Node("Mul", {update, onnx->Node("Sub", {fresh, before})});
      return onnx->Node("Add", {before, change});
    };
    std::vector<int64_t> widths = {3 * h};
    if (weighted) widths.push_back(1);
    return onnx->Scan(sequence(), h, in, widths, step);
  }

 private:
  // Calls fn(row, position) for the rows of the tile that have an event t.
  template <typename Fn>
  void ForActive(const OpTile& tile, int64_t t, const Fn& fn) const {
    for (int i = 0; i < tile.batch_rows; ++i) {
      const int64_t p = tile.PositionsBefore(sequence(), i) + t;
      if (p < tile.PositionsBefore(sequence(), i + 1)) fn(i, p);
    }
  }
  int64_t Longest(const OpTile& tile) const {
    int64_t longest = 0;
    for (int i = 0; i < tile.batch_rows; ++i) {
      longest = std::max(
          longest, tile.PositionsBefore(sequence(), i + 1) - tile.PositionsBefore(sequence(), i));
    }
    return longest;
  }
  Real WeightAt(const OpTile& tile, int64_t p) const {
    return inputs().size() > 1 ? tile.in[1][p] : Real{1};
  }
  // The state before event t of a row, which is at position p.
  void Before(const OpTile& tile, int64_t t, int64_t p, Real* before) const {
    if (t == 0) {
      tile.kernels().fill(width(), 0, before);
    } else {
      tile.kernels().copy(width(), tile.out + (p - 1) * width(), before, false);
    }
  }

  // All states are known, so what went into the cells takes one GEMM.
  void Recompute(const OpTile& tile, Real* before, Real* hidden) const {
    const int h = width();
    for (int i = 0; i < tile.batch_rows; ++i) {
      const int64_t begin = tile.PositionsBefore(sequence(), i);
      for (int64_t p = begin; p < tile.PositionsBefore(sequence(), i + 1); ++p) {
        Before(tile, p - begin, p, before + p * h);
      }
    }
    tile.device().Gemm(tile.rows, 3 * h, h, {before, h, 1}, PackedGemmB(h, 3 * h, tile.state),
                       GemmStart::kBias, tile.step->params + bias_, hidden);
  }

  // Takes the gradient by way of the next event from `carry` and leaves there
  // what reaches the state before by 1 - u; the gates' gradients go out.
  void CellBackward(const OpTile& tile, int64_t p, const Real* before, const Real* hidden,
                    Real* carry, Real* g_hidden, Real* cell) const {
    const int h = width();
    Real* g = cell;                // (h): of the state after,
    Real* g_weight = cell + h;     // (h): parts of the weight's,
    Real* g_gates = cell + 2 * h;  // (3 h)
    tile.kernels().copy(h, tile.out_grad + p * h, g, false);
    tile.kernels().copy(h, carry, g, true);
    tile.kernels().gru_cell_backward(h, tile.in[0] + p * 3 * h, hidden, WeightAt(tile, p), before,
                                     g, g_gates, g_hidden, carry, g_weight);
    if (tile.in_grad[0] != nullptr) {
      tile.kernels().copy(3 * h, g_gates, tile.in_grad[0] + p * 3 * h, tile.in_add[0]);
    }
    if (inputs().size() == 1 || tile.in_grad[1] == nullptr) return;
    if (!tile.in_add[1]) tile.kernels().fill(1, 0, tile.in_grad[1] + p);
    tile.kernels().add_rows(h, 1, g_weight, nullptr, tile.in_grad[1] + p);
  }

  const int64_t weight_, bias_;  // Offsets.
};

}  // namespace

Value Gru(GraphBuilder* graph, std::string name, Value gates, Value weights) {
  const int hidden = gates.width / 3;
  const int64_t weight =
      graph->AddParam(name + ".weight", hidden, 3 * hidden, Init::kXavierNormal, true);
  const int64_t bias = graph->AddParam(name + ".bias", 1, 3 * hidden, Init::kZero, false);
  std::vector<Value> inputs = {gates};
  if (weights.id >= 0) inputs.push_back(weights);
  return graph->Append(
      std::make_unique<GruOp>(std::move(name), std::move(inputs), hidden, weight, bias));
}

}  // namespace starling
