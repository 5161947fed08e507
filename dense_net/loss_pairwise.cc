#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "dense_net/losses.h"
#include "dense_net/onnx_graph.h"
#include "dense_net/real.h"

namespace starling {
namespace {

// Pairs may lie in different tiles, so the op is coupled: all logits come
// together first, one thread forms the pairs of each group, in the order of
// rows, and leaves the gradients for the tiles to take.
class PairwiseLossOp : public CoupledOp {
 public:
  PairwiseLossOp(const LossPlace& place, Value logit)
      : CoupledOp(place.name, {logit}, 1), place_(place) {}

  bool is_loss() const override { return true; }
  // Logits, then gradients.
  int64_t StateFloats(const Step& step) const override {
    return step.training ? 2 * int64_t{step.batch->rows} : 0;
  }

  void Forward(const OpTile& tile) const override {
    const Step& step = *tile.step;
    for (int i = 0; i < tile.rows; ++i) {
      tile.out[i] = static_cast<Real>(1.0 / (1.0 + std::exp(-double{tile.in[0][i]})));
      if (place_.output < 0) continue;
      step.scores[(tile.first + i) * step.outputs + place_.output] = tile.out[i];
    }
  }

  void ReduceForward(const OpTile& tile) const override {
    std::copy_n(tile.in[0], tile.rows, tile.state + tile.first);
  }

  void CombineForward(const Step& step, Real* state, Real* /*param_grads*/) const override {
    const int64_t rows = step.batch->rows;
    static thread_local std::vector<uint32_t> order;
    order.resize(rows);
    std::iota(order.begin(), order.end(), 0);
    const Batch& batch = *step.batch;
    auto group = [&](uint32_t row) -> uint64_t {
      if (!batch.groups.empty()) return batch.groups[row];
      return batch.request_of_row.empty() ? 0 : batch.request_of_row[row];
    };
    // By row inside a group: std::stable_sort would allocate.
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return group(a) != group(b) ? group(a) < group(b) : a < b;
    });
    std::fill_n(state + rows, rows, Real{0});
    Pairs pairs{.step = &step, .logits = state, .grads = state + rows};
    for (auto begin = order.begin(); begin != order.end();) {
      const auto end = std::find_if(begin, order.end(),
                                    [&](uint32_t row) { return group(row) != group(*begin); });
      AddGroup({begin, end}, &pairs);
      begin = end;
    }
    if (pairs.count == 0) return;
    for (int64_t i = 0; i < rows; ++i) {
      pairs.grads[i] = static_cast<Real>(pairs.grads[i] / static_cast<double>(pairs.count));
    }
    // A mean over pairs; the executor divides by rows.
    step.tile_loss[0] += pairs.loss / static_cast<double>(pairs.count) * static_cast<double>(rows);
  }

  void ReduceBackward(const OpTile&) const override {}
  void CombineBackward(const Step&, Real*, Real*) const override {}

  void Backward(const OpTile& tile) const override {
    Real* out = tile.in_grad[0];
    if (out == nullptr) return;
    const Real* grads = tile.state + tile.step->batch->rows + tile.first;
    for (int i = 0; i < tile.rows; ++i) out[i] = (tile.in_add[0] ? out[i] : 0) + grads[i];
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::string score = onnx->Node("Sigmoid", in);
    if (place_.output >= 0) onnx->Output(place_.score, score, 1);
    return score;
  }

 private:
  struct Pairs {
    const Step* step;
    const Real* logits;
    Real* grads;
    int64_t count = 0;
    double loss = 0;
  };

  // log(1 + exp(low - high)) of each pair, times the weight of its upper row.
  void AddGroup(std::span<const uint32_t> rows, Pairs* pairs) const {
    for (uint32_t high : rows) {
      const double weight = RowWeight(place_, *pairs->step, high);
      double slope = 0;
      for (uint32_t low : rows) {
        if (!(Label(*pairs->step, high) > Label(*pairs->step, low))) continue;
        if (place_.given >= 0 && RowWeight(place_, *pairs->step, low) == 0) continue;
        if (weight == 0) continue;
        const double z = double{pairs->logits[high]} - pairs->logits[low];
        const double g = weight / (1.0 + std::exp(z));
        pairs->loss += weight * ((z < 0 ? -z : 0) + std::log1p(std::exp(-std::fabs(z))));
        pairs->grads[low] += static_cast<Real>(g);
        slope += g;
        ++pairs->count;
      }
      pairs->grads[high] -= static_cast<Real>(slope);
    }
  }
  float Label(const Step& step, int64_t row) const {
    return step.batch->labels[row * step.labels + place_.label];
  }

  const LossPlace place_;
};

}  // namespace

void PairwiseLoss(GraphBuilder* graph, const LossPlace& place, Value logit) {
  graph->Append(std::make_unique<PairwiseLossOp>(place, logit));
}

}  // namespace starling
