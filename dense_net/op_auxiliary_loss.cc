// DIEN's auxiliary loss: the state after an event should point to the next event
// of the row, and away from an event of another row.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/hash.h"
#include "base/random.h"
#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

Real Sigmoid(Real x) { return Real{1} / (Real{1} + std::exp(-x)); }
// -log(sigmoid(x)), for any x.
double Softplus(double x) { return (x < 0 ? 0 : x) + std::log1p(std::exp(-std::fabs(x))); }

class AuxiliaryLossOp : public Op {
 public:
  AuxiliaryLossOp(std::string name, Value states, Value events, double weight)
      : Op(std::move(name), {states, events}, 1),
        d_(states.width),
        weight_(weight),
        key_(HashBytes(this->name(), 0)) {}

  bool is_loss() const override { return true; }

  // The factor that makes a sum over pairs the weighted mean.
  int64_t StateFloats(const Step& step) const override { return step.training ? 1 : 0; }
  void Prepare(const Step& step, Real* state) const override {
    if (!step.training) return;
    int64_t pairs = 0;
    for (int64_t r = 0; r < step.batch->rows; ++r) {
      pairs +=
          std::max<int64_t>(0, step.Before(sequence(), r + 1) - step.Before(sequence(), r) - 1);
    }
    *state = static_cast<Real>(weight_ / static_cast<double>(std::max<int64_t>(pairs, 1)));
  }

  void Forward(const OpTile& tile) const override {
    std::fill_n(tile.out, tile.rows, Real{0});
    if (!tile.step->training) return;
    double loss = 0;
    ForPairs(tile, [&](int64_t state, int64_t next, int64_t other) {
      const double pair =
          Softplus(-Dot(tile, state, next)) + (other < 0 ? 0 : Softplus(Dot(tile, state, other)));
      tile.out[state] = static_cast<Real>(pair);
      loss += pair;
    });
    // Losses are means over the batch's rows.
    tile.step->tile_loss[tile.index] += loss * *tile.state * tile.step->batch->rows;
  }

  void Backward(const OpTile& tile) const override {
    for (int v = 0; v < 2; ++v) {
      if (tile.in_grad[v] == nullptr || tile.in_add[v]) continue;
      std::fill_n(tile.in_grad[v], int64_t{tile.rows} * d_, Real{0});
    }
    ForPairs(tile, [&](int64_t state, int64_t next, int64_t other) {
      Pull(tile, state, next, (Sigmoid(Dot(tile, state, next)) - 1) * *tile.state);
      if (other >= 0) Pull(tile, state, other, Sigmoid(Dot(tile, state, other)) * *tile.state);
    });
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph*) const override {
    return in[0];  // It teaches; it has no score.
  }

 private:
  // Calls fn(position of the state, of the next event, of another row's event,
  // which is -1 if the tile has none). That one is drawn anew each step.
  template <typename Fn>
  void ForPairs(const OpTile& tile, const Fn& fn) const {
    const uint64_t key = Mix64(tile.step->seed) ^ key_;
    for (int i = 0; i < tile.batch_rows; ++i) {
      const int64_t begin = tile.PositionsBefore(sequence(), i);
      const int64_t end = tile.PositionsBefore(sequence(), i + 1);
      const int64_t others = tile.rows - (end - begin);
      for (int64_t p = begin; p + 1 < end; ++p) {
        int64_t other = -1;
        if (others > 0) other = static_cast<int64_t>(RandomBelow(key, tile.first + p, others));
        fn(p, p + 1, other >= begin ? other + (end - begin) : other);
      }
    }
  }
  Real Dot(const OpTile& tile, int64_t state, int64_t event) const {
    Real dot = 0;
    for (int j = 0; j < d_; ++j) dot += tile.in[0][state * d_ + j] * tile.in[1][event * d_ + j];
    return dot;
  }
  // The gradients of a dot product whose own is g.
  void Pull(const OpTile& tile, int64_t state, int64_t event, Real g) const {
    for (int j = 0; j < d_; ++j) {
      const int64_t s = state * d_ + j, e = event * d_ + j;
      if (tile.in_grad[0] != nullptr) tile.in_grad[0][s] += g * tile.in[1][e];
      if (tile.in_grad[1] != nullptr) tile.in_grad[1][e] += g * tile.in[0][s];
    }
  }

  const int d_;
  const double weight_;
  const uint64_t key_;
};

}  // namespace

void AuxiliaryLoss(GraphBuilder* graph, std::string name, Value states, Value events,
                   double weight) {
  graph->Append(std::make_unique<AuxiliaryLossOp>(std::move(name), states, events, weight));
}

}  // namespace starling
