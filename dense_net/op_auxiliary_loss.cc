// DIEN's auxiliary loss: the state after an event should point to the next event
// of the row, and away from an event of another row.
#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/random.h"
#include "dense_net/losses.h"
#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

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
    const int64_t pairs = step.share.joint->pairs[sequence()];
    *state = static_cast<Real>(weight_ / static_cast<double>(std::max<int64_t>(pairs, 1)));
  }

  int64_t ScratchFloats(int tile) const override {
    return std::max<int64_t>(LossFloats(tile), int64_t{2} * tile);
  }

  double ElementFlops() const override { return 0; }  // It is no part of scoring.
  void Forward(const OpTile& tile) const override {
    tile.kernels().fill(tile.rows, 0, tile.out);
    if (!tile.step->training) return;
    const std::span<const EventPair> pairs = PairsOf(tile);
    const int n = static_cast<int>(pairs.size());
    tile.losses().event_loss(n, pairs.data(), d_, tile.in[0], tile.in[1], tile.out, LossesOf(tile));
    double loss = 0;
    tile.losses().add_sum(n, LossesOf(tile), &loss);
    // Losses are means over the batch's rows.
    tile.step->tile_loss[tile.index] +=
        loss * *tile.state * static_cast<double>(tile.step->share.joint->rows);
  }

  void Backward(const OpTile& tile) const override {
    for (int v = 0; v < 2; ++v) {
      if (tile.in_grad[v] == nullptr || tile.in_add[v]) continue;
      tile.kernels().fill(int64_t{tile.rows} * d_, 0, tile.in_grad[v]);
    }
    const std::span<const EventPair> pairs = PairsOf(tile);
    tile.losses().event_loss_backward(static_cast<int>(pairs.size()), pairs.data(), d_, *tile.state,
                                      tile.in[0], tile.in[1], tile.scratch, tile.in_grad[0],
                                      tile.in_grad[1]);
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph*) const override {
    return in[0];  // It teaches; it has no score.
  }

 private:
  // Each event but a row's last, and an event of another row of the tile, drawn anew each
  // step. Valid until the thread's next call.
  std::span<const EventPair> PairsOf(const OpTile& tile) const {
    static thread_local std::vector<EventPair> pairs;
    pairs.clear();
    const uint64_t key = Mix64(tile.step->seed) ^ key_;
    const int64_t first = tile.step->JointRow(sequence(), tile.first);
    for (int i = 0; i < tile.batch_rows; ++i) {
      const int64_t begin = tile.PositionsBefore(sequence(), i);
      const int64_t end = tile.PositionsBefore(sequence(), i + 1);
      const int64_t others = tile.rows - (end - begin);
      for (int64_t p = begin; p + 1 < end; ++p) {
        int64_t other = -1;
        if (others > 0) other = static_cast<int64_t>(RandomBelow(key, first + p, others));
        pairs.push_back({p, other >= begin ? other + (end - begin) : other});
      }
    }
    return pairs;
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
