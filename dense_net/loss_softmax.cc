#include <algorithm>
#include <cmath>
#include <vector>

#include "dense_net/losses.h"
#include "dense_net/onnx_graph.h"
#include "dense_net/real.h"

namespace starling {
namespace {

// Row i's user u_i against the items v_j of all rows: with s_ij = scale u_i v_j,
// loss_i = log sum_j exp(s_ij - log c_j) - s_ii, c_j being the rows that hold
// item j. All vectors come together first; then a tile has its rows' sums, and
// after a second barrier its users' and its items' gradients.
class SoftmaxLossOp : public CoupledOp {
 public:
  SoftmaxLossOp(const LossPlace& place, Value user, Value item, const SoftmaxOptions& options)
      : CoupledOp(place.name, {user, item}, 1),
        place_(place),
        dim_(user.width),
        scale_(static_cast<Real>(options.scale)),
        item_(options.item) {}

  bool is_loss() const override { return true; }

  // Users and items, (rows, dim) each; logs of sums and of counts; a row of
  // scores for each tile.
  int64_t StateFloats(const Step& step) const override {
    const int64_t rows = step.batch->rows;
    return step.training ? rows * (2 * dim_ + 2 + step.tiles) : 0;
  }

  double ElementFlops() const override { return 2.0 * dim_ + 2; }
  void ReduceForward(const OpTile& tile) const override {
    const Parts parts = PartsOf(*tile.step, tile.state);
    for (int side = 0; side < 2; ++side) {
      tile.kernels().copy(int64_t{tile.rows} * dim_, tile.in[side],
                          parts.vectors[side] + tile.first * dim_, false);
    }
  }

  void CombineForward(const Step& step, Real* state, Real* /*param_grads*/) const override {
    const Parts parts = PartsOf(step, state);
    std::fill_n(parts.log_count, step.batch->rows, Real{0});
    if (item_.has_table()) CountItems(step, parts);
  }

  int64_t ScratchFloats(int tile) const override { return LossFloats(tile) + tile; }

  void Forward(const OpTile& tile) const override {
    const Step& step = *tile.step;
    Real* own = tile.scratch + LossFloats(tile.rows);
    tile.fields().row_dots(tile.rows, dim_, scale_, {tile.in[0], dim_}, {tile.in[1], dim_},
                           {own, 1}, false);
    tile.losses().logistic(tile.rows, own, tile.out);
    StoreScores(step, place_.output, tile.first, tile.rows, tile.out);
    if (!step.training) return;
    const Parts parts = PartsOf(step, tile.state);
    for (int64_t row = tile.first; row < tile.first + tile.rows; ++row) {
      tile.losses().softmax_sum(static_cast<int>(step.batch->rows), scale_, parts.log_count,
                                ScoresOf(tile, parts, 0, row), parts.log_sum + row);
    }
    tile.losses().softmax_loss(tile.rows, RowsOf(place_, step, tile.first),
                               parts.log_sum + tile.first, own, LossesOf(tile));
    AddLosses(tile);
  }

  void ReduceBackward(const OpTile&) const override {}
  void CombineBackward(const Step&, Real*, Real*) const override {}

  void Backward(const OpTile& tile) const override {
    for (int side = 0; side < 2; ++side) {
      if (tile.in_grad[side] != nullptr) BackwardOf(tile, side);
    }
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::string scale = onnx->Float(static_cast<float>(scale_));
    const std::string own = onnx->Node("Mul", {onnx->Dot(in[0], in[1]), scale});
    const std::string score = onnx->Node("Sigmoid", {own});
    onnx->Output(place_.score, score, 1);
    return score;
  }

 private:
  struct Parts {
    Real* vectors[2];  // Users, items.
    Real *log_sum, *log_count, *scores;
  };
  Parts PartsOf(const Step& step, Real* state) const {
    const int64_t rows = step.batch->rows;
    Parts parts;
    parts.vectors[0] = state;
    parts.vectors[1] = state + rows * dim_;
    parts.log_sum = state + 2 * rows * dim_;
    parts.log_count = parts.log_sum + rows;
    parts.scores = parts.log_count + rows;  // (tiles, rows)
    return parts;
  }
  // An item is a row's first id of the slot; rows without one are items of their own.
  void CountItems(const Step& step, const Parts& parts) const {
    const Slot& slot = step.batch->tables[item_.table()].slots[item_.slot()];
    static thread_local std::vector<uint32_t> counts;
    counts.assign(step.batch->tables[item_.table()].ids.size(), 0);
    auto item = [&](int64_t row) -> const uint32_t* {
      const bool by_request = slot.axis == Axis::kRequest && !step.batch->request_of_row.empty();
      const int64_t entry = by_request ? step.batch->request_of_row[row] : row;
      return slot.offsets[entry] == slot.offsets[entry + 1] ? nullptr
                                                            : &slot.index[slot.offsets[entry]];
    };
    for (int64_t row = 0; row < step.batch->rows; ++row) {
      if (const uint32_t* id = item(row)) ++counts[*id];
    }
    for (int64_t row = 0; row < step.batch->rows; ++row) {
      if (const uint32_t* id = item(row))
        parts.log_count[row] = static_cast<Real>(std::log(counts[*id]));
    }
  }

  // The scores of one vector of a side against all of the other, in the tile's place.
  Real* ScoresOf(const OpTile& tile, const Parts& parts, int side, int64_t row) const {
    const int64_t rows = tile.step->batch->rows;
    Real* scores = parts.scores + tile.index * rows;
    tile.device().RowDots(static_cast<int>(rows), dim_, parts.vectors[1 - side],
                          parts.vectors[side] + row * dim_, 0, scores);
    return scores;
  }

  void BackwardOf(const OpTile& tile, int side) const {
    const Step& step = *tile.step;
    const Parts parts = PartsOf(step, tile.state);
    const int rows = static_cast<int>(step.batch->rows);
    if (!tile.in_add[side]) {
      tile.kernels().fill(int64_t{tile.rows} * dim_, 0, tile.in_grad[side]);
    }
    for (int i = 0; i < tile.rows; ++i) {
      const int64_t own = tile.first + i;
      Real* g = ScoresOf(tile, parts, side, own);
      tile.losses().softmax_slopes(rows, static_cast<int>(own), side == 0, RowsOf(place_, step, 0),
                                   scale_, parts.log_count, parts.log_sum, g);
      tile.kernels().add_rows(rows, dim_, parts.vectors[1 - side], g,
                              tile.in_grad[side] + int64_t{i} * dim_);
    }
  }

  const LossPlace place_;
  const int dim_;
  const Real scale_;
  const SlotSpec item_;  // Without a table: each row's item is its own.
};

}  // namespace

void SoftmaxLoss(GraphBuilder* graph, const LossPlace& place, Value user, Value item,
                 const SoftmaxOptions& options) {
  graph->Append(std::make_unique<SoftmaxLossOp>(place, user, item, options));
}

}  // namespace starling
