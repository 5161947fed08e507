#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"
#include "dense_net/item_frequency.h"
#include "dense_net/item_sampler.h"
#include "dense_net/losses.h"
#include "dense_net/onnx_graph.h"
#include "dense_net/real.h"

namespace starling {
namespace {

constexpr uint64_t kDraws = 0x6974656d73;  // Apart from what else a step's seed decides.

// Row i's user u_i against the items v_j of all rows: with s_ij = scale u_i v_j,
// loss_i = log sum_j exp(s_ij - log c_j) - s_ii, c_j being the rows that hold
// item j. All vectors come together first; then a tile has its rows' sums, and
// after a second barrier its users' and its items' gradients.
//
// Streaming: every score is lessened by log p_j too, p_j being the chance that a
// batch has item j. Negatives: of each item one row is a candidate if it was drawn,
// m_j times where E_j were expected, and counts m_j / (E_j p_j); a row's own item,
// which is there once more, counts (m_i + 1) / (E_i p_i). So few draws are the sampled
// softmax of Jean et al. 2015, and endless ones the softmax over all items.
class SoftmaxLossOp : public CoupledOp {
 public:
  SoftmaxLossOp(const LossPlace& place, Value user, Value item, const SoftmaxOptions& options,
                const ItemFrequency& frequency)
      : CoupledOp(place.name, {user, item}, 1),
        place_(place),
        dim_(user.width),
        scale_(static_cast<Real>(options.scale)),
        item_(options.item),
        sampling_(options.sampling),
        frequency_(frequency) {}

  bool is_loss() const override { return true; }

  // Users and items, (rows, dim) each; by row the logs of sums, counts and Q and the
  // item's number; a row of scores for each tile.
  int64_t StateFloats(const Step& step) const override {
    const int64_t rows = step.batch->rows;
    return step.training ? rows * (2 * dim_ + 4 + step.tiles) : 0;
  }

  double ElementFlops() const override { return 2.0 * dim_ + 2; }
  void ReduceForward(const OpTile& tile) const override {
    const Parts parts = PartsOf(*tile.step, tile.state);
    for (int side = 0; side < 2; ++side) {
      tile.kernels().copy(int64_t{tile.rows} * dim_, tile.in[side],
                          parts.vectors[side] + tile.first * dim_, false);
    }
  }

  void CombineForward(const Step& step, Real* state, Real* param_grads) const override {
    const Parts parts = PartsOf(step, state);
    std::fill_n(parts.log_count, 3 * step.batch->rows, Real{0});
    if (item_.has_table()) WeighItems(step, parts, param_grads);
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
      tile.losses().softmax_sum(static_cast<int>(step.batch->rows), static_cast<int>(row), scale_,
                                Items(parts), ScoresOf(tile, parts, 0, row), parts.log_sum + row);
    }
    tile.losses().softmax_loss(tile.rows, RowsOf(place_, step, tile.first),
                               parts.log_sum + tile.first, own, parts.log_q + tile.first,
                               LossesOf(tile));
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
    Real *log_sum, *log_count, *log_q, *item, *scores;
  };
  Parts PartsOf(const Step& step, Real* state) const {
    const int64_t rows = step.batch->rows;
    Parts parts;
    parts.vectors[0] = state;
    parts.vectors[1] = state + rows * dim_;
    parts.log_sum = state + 2 * rows * dim_;
    parts.log_count = parts.log_sum + rows;
    parts.log_q = parts.log_count + rows;
    parts.item = parts.log_q + rows;
    parts.scores = parts.item + rows;  // (tiles, rows)
    return parts;
  }
  bool draws() const { return sampling_.negatives() > 0; }
  SoftmaxItems Items(const Parts& parts) const {
    return {.log_count = parts.log_count,
            .own_log_count = draws() ? parts.log_q : parts.log_count,
            .item = draws() ? parts.item : nullptr};
  }
  // The distinct items of a batch, in the order of their first rows. An item is a row's
  // first id of the slot; rows without one are items of their own.
  struct BatchItems {
    std::vector<uint32_t> of_row, of_id, count, first_row, drawn;
    std::vector<double> log_p, frequency, chance;
  };
  // The row's id as an index into the table's; null: none.
  const uint32_t* IdOf(const Step& step, int64_t row) const {
    const Slot& slot = step.batch->tables[item_.table()].slots[item_.slot()];
    const bool by_request = slot.axis == Axis::kRequest && !step.batch->request_of_row.empty();
    const int64_t entry = by_request ? step.batch->request_of_row[row] : row;
    return slot.offsets[entry] == slot.offsets[entry + 1] ? nullptr
                                                          : &slot.index[slot.offsets[entry]];
  }
  void FindItems(const Step& step, Real* additions, BatchItems* items) const {
    const std::vector<uint64_t>& ids = step.batch->tables[item_.table()].ids;
    const bool streams = sampling_.has_streaming();
    if (streams) BeginItems(frequency_, additions);
    items->of_id.assign(ids.size(), UINT32_MAX);
    items->of_row.clear();
    items->count.clear();
    items->first_row.clear();
    items->log_p.clear();
    for (uint32_t row = 0; row < step.batch->rows; ++row) {
      const uint32_t* id = IdOf(step, row);
      uint32_t item = id == nullptr ? UINT32_MAX : items->of_id[*id];
      if (item == UINT32_MAX) {
        item = static_cast<uint32_t>(items->count.size());
        if (id != nullptr) items->of_id[*id] = item;
        items->count.push_back(0);
        items->first_row.push_back(row);
        items->log_p.push_back(
            streams && id != nullptr ? SeeItem(frequency_, ids[*id], step.params, additions) : 0);
      }
      ++items->count[item];
      items->of_row.push_back(item);
    }
  }

  void WeighItems(const Step& step, const Parts& parts, Real* param_grads) const {
    static thread_local BatchItems items;
    FindItems(step, param_grads, &items);
    if (draws()) DrawCandidates(step, &items);
    for (uint32_t row = 0; row < step.batch->rows; ++row) {
      const uint32_t item = items.of_row[row];
      double log_q = items.log_p[item], log_count = log_q + std::log(items.count[item]);
      if (draws()) {
        const double drawn = items.drawn[item];
        const bool candidate = items.first_row[item] == row && drawn > 0;
        log_q += std::log(sampling_.negatives() * items.chance[item]);
        log_count = candidate ? log_q - std::log(drawn) : HUGE_VAL;
        log_q -= std::log(1 + drawn);
      }
      parts.item[row] = static_cast<Real>(item);
      parts.log_q[row] = static_cast<Real>(log_q);
      parts.log_count[row] = static_cast<Real>(log_count);
    }
  }
  // By what is known of frequencies: the stream's, or else the batch's.
  void DrawCandidates(const Step& step, BatchItems* items) const {
    items->frequency.clear();
    for (size_t item = 0; item < items->count.size(); ++item) {
      items->frequency.push_back(sampling_.has_streaming() ? std::exp(items->log_p[item])
                                                           : items->count[item]);
    }
    DrawChances(sampling_.sampler(), items->frequency, &items->chance);
    DrawItems(items->chance, sampling_.negatives(), Mix64(step.seed) ^ kDraws, &items->drawn);
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
                                   scale_, Items(parts), parts.log_sum, g);
      tile.kernels().add_rows(rows, dim_, parts.vectors[1 - side], g,
                              tile.in_grad[side] + int64_t{i} * dim_);
    }
  }

  const LossPlace place_;
  const int dim_;
  const Real scale_;
  const SlotSpec item_;  // Without a table: each row's item is its own.
  const LossOptions::SampledSoftmax sampling_;
  const ItemFrequency frequency_;
};

}  // namespace

void SoftmaxLoss(GraphBuilder* graph, const LossPlace& place, Value user, Value item,
                 const SoftmaxOptions& options) {
  ItemFrequency frequency;
  if (options.sampling.has_streaming()) {
    const auto& streaming = options.sampling.streaming();
    frequency =
        AddItemFrequency(graph, place.name + ".items", streaming.rate(), streaming.buckets());
  }
  graph->Append(std::make_unique<SoftmaxLossOp>(place, user, item, options, frequency));
}

}  // namespace starling
