// The losses: each function appends one to a graph under construction. One
// file each, loss_<name>.cc. A loss is an op that ends its branch: it writes its
// score, if it has one, and adds its weighted sum to the loss of the tile.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "dense_net/graph.h"

namespace starling {

// Where a loss finds its labels and leaves its score.
struct LossPlace {
  std::string name;             // Of the op.
  int output = -1;              // Column of the scores; -1: an auxiliary loss, without one.
  std::string score = "score";  // Name of the score in ONNX.
  int label = 0;                // Column of the labels.
  int given = -1;               // Only rows count whose label of this column is positive; -1: all.
  double weight = 1;            // In the sum of losses.
};

// What the rows from `first` on are to learn, and what they count for.
LossRows RowsOf(const LossPlace& place, const Step& step, int64_t first);
// Writes m scores to the output's column, if there is one, of the rows from `first` on.
void StoreScores(const Step& step, int output, int64_t first, int m, const Real* scores);
// Scratch of a tile's losses by row, as the kernels leave them, and their sum's way to the tile's.
inline int64_t LossFloats(int tile) { return int64_t{tile} * sizeof(double) / sizeof(Real); }
inline double* LossesOf(const OpTile& tile) { return reinterpret_cast<double*>(tile.scratch); }
inline void AddLosses(const OpTile& tile) {
  tile.losses().add_sum(tile.rows, LossesOf(tile), &tile.step->tile_loss[tile.index]);
}

// Score sigmoid(logit). Positives count `positive_weight` times.
void LogLoss(GraphBuilder* graph, const LossPlace& place, Value logit, double positive_weight = 1);
// Score sigmoid(logit). A row counts (1 - p)^gamma times alpha if positive, p^gamma times
// 1 - alpha if negative (Lin et al. 2017).
void FocalLoss(GraphBuilder* graph, const LossPlace& place, Value logit, double gamma,
               double alpha);
// Score x. The mean of (x - label)^2.
void SquaredLoss(GraphBuilder* graph, const LossPlace& place, Value x);

// Log loss of p = sigmoid(a) sigmoid(b), its score. `second_output` is sigmoid(b)'s
// column of the scores: what the product says of b, without a loss of b's own
// (ESMM: click times conversion given click).
void ProductLoss(GraphBuilder* graph, const LossPlace& place, Value a, Value b, int second_output);
// Score sigmoid(logit). log(1 + exp(low - high)) in the mean over all pairs of a
// higher and a lower label inside a group, or else a request (RankNet, BPR);
// a pair counts as much as its upper row.
void PairwiseLoss(GraphBuilder* graph, const LossPlace& place, Value logit);
// Score sigmoid(scale user . item). A positive row's own item against the items of
// all rows of the batch, by softmax. With `item`, a slot, each distinct item counts
// once however many rows hold it: logQ, Q being the batch's frequencies. What more Q
// may be, and a sample of the items, LossOptions::SampledSoftmax has the words for.
struct SoftmaxOptions {
  double scale = 1;
  SlotSpec item;  // No table: every row's item counts.
  LossOptions::SampledSoftmax sampling;
};
void SoftmaxLoss(GraphBuilder* graph, const LossPlace& place, Value user, Value item,
                 const SoftmaxOptions& options);

// A gate of PLE reads every task's experts, its own weights and the shared experts.
inline constexpr int kTasksMax = kOpInputsMax - 2;
// Checks that the spec's tasks fit the model, which takes least..most of them:
// labels that exist, losses of sound settings that the model has.
absl::Status CheckTasks(const GraphSpec& spec, const std::string& model, int least, int most);
int TaskCount(const GraphSpec& spec);
// Task t's output, and the place of its loss. Without tasks in the spec: the
// log loss of the one label.
LossPlace AddTask(const GraphSpec& spec, int t, GraphBuilder* graph);
// Task t's output and loss by its options, on a logit of width 1.
void AddTaskLoss(const GraphSpec& spec, int t, Value logit, GraphBuilder* graph);

}  // namespace starling
