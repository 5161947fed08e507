#include <algorithm>
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

  double ElementFlops() const override { return 1; }
  void Forward(const OpTile& tile) const override {
    tile.losses().logistic(tile.rows, tile.in[0], tile.out);
    StoreScores(*tile.step, place_.output, tile.first, tile.rows, tile.out);
  }

  void ReduceForward(const OpTile& tile) const override {
    tile.kernels().copy(tile.rows, tile.in[0], tile.state + tile.first, false);
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
    static thread_local std::vector<uint32_t> offsets;
    static thread_local std::vector<double> losses;
    static thread_local std::vector<int64_t> pairs;
    offsets.clear();
    for (int64_t i = 0; i < rows; ++i) {
      if (i == 0 || group(order[i]) != group(order[i - 1])) {
        offsets.push_back(static_cast<uint32_t>(i));
      }
    }
    const int groups = static_cast<int>(offsets.size());
    offsets.push_back(static_cast<uint32_t>(rows));
    losses.resize(groups);
    pairs.resize(groups);
    const Kernels& kernels = step.device->kernels();
    kernels.fill(rows, 0, state + rows);
    step.device->losses().pairwise(groups, offsets.data(), order.data(), RowsOf(place_, step, 0),
                                   state, state + rows, losses.data(), pairs.data());
    const int64_t count = std::accumulate(pairs.begin(), pairs.end(), int64_t{0});
    if (count == 0) return;
    // Means over pairs; the executor divides the loss by rows.
    const Real share = static_cast<Real>(1.0 / static_cast<double>(count));
    step.device->fields().scale_rows(1, static_cast<int>(rows), 1, {state + rows, 0}, {&share, 0},
                                     {state + rows, 0}, false);
    const double loss = std::accumulate(losses.begin(), losses.end(), 0.0);
    step.tile_loss[0] += loss / static_cast<double>(count) * static_cast<double>(rows);
  }

  void ReduceBackward(const OpTile&) const override {}
  void CombineBackward(const Step&, Real*, Real*) const override {}

  void Backward(const OpTile& tile) const override {
    Real* out = tile.in_grad[0];
    if (out == nullptr) return;
    tile.kernels().copy(tile.rows, tile.state + tile.step->batch->rows + tile.first, out,
                        tile.in_add[0]);
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::string score = onnx->Node("Sigmoid", in);
    if (place_.output >= 0) onnx->Output(place_.score, score, 1);
    return score;
  }

 private:
  const LossPlace place_;
};

}  // namespace

void PairwiseLoss(GraphBuilder* graph, const LossPlace& place, Value logit) {
  graph->Append(std::make_unique<PairwiseLossOp>(place, logit));
}

}  // namespace starling
