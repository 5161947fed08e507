// The ops of dense_net: each function appends one to a graph under
// construction and returns its output. One file each, op_<name>.cc.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dense_net/graph.h"

namespace starling {

// (S * dim): the pooled embeddings of all slots, side by side, in the spec's order.
Value EmbeddingInput(GraphBuilder* graph, const GraphSpec& spec);
// The slots that are no sequences, in the spec's order.
std::vector<SlotSpec> PooledSlots(const GraphSpec& spec);
// (1): a bias plus the pooled first-order weights of all slots.
Value LinearInput(GraphBuilder* graph, const GraphSpec& spec);
// (F): the raw features.
Value RawInput(GraphBuilder* graph, int features);

// x W + b. W is (in, out); without `bias` there is no b.
struct FullyConnectedOptions {
  int width = 1;
  bool bias = true;
  Init init = Init::kXavierNormal;
};
Value FullyConnected(GraphBuilder* graph, std::string name, Value x,
                     const FullyConnectedOptions& options);

// Training: by the batch's mean and (biased) variance, eps 1e-5. Scoring: by
// the running ones, which move by momentum 0.1, the variance unbiased.
Value BatchNorm(GraphBuilder* graph, std::string name, Value x);
// Each of a row's `positions` equal parts by its own mean and (biased)
// variance, eps 1e-5, then a scale and a shift by column.
Value LayerNorm(GraphBuilder* graph, std::string name, Value x, int positions = 1);
// In place, but for Gelu and Prelu.
Value Activate(GraphBuilder* graph, std::string name, Value x, MlpOptions::Activation kind);
Value Gelu(GraphBuilder* graph, std::string name, Value x);
// A slope for negative x a column, learned, 0.25 at first.
Value Prelu(GraphBuilder* graph, std::string name, Value x);
// Inverted dropout: identity when scoring. The mask is a function of the
// step's seed, the op, the row and the column.
Value Dropout(GraphBuilder* graph, std::string name, Value x, double share);

// (1): half of (squared sum - sum of squares) over x as (slots, dim).
Value FmSecondOrder(GraphBuilder* graph, Value x, int dim, std::string name = "fm");
// x0 * u + x: one layer of DCN-v2 once u = W x + b.
Value CrossCombine(GraphBuilder* graph, std::string name, Value x0, Value u, Value x);
// x0 * u + b + x, u one number a row, b a parameter: one layer of DCN once u = w' x.
Value CrossVector(GraphBuilder* graph, std::string name, Value x0, Value u, Value x);
// (pairs): the dot products of all pairs of x as (slots, dim), (0, 1), (0, 2), … (1, 2), ….
Value PairDots(GraphBuilder* graph, std::string name, Value x, int dim);
// (dim): the sum of the products of all pairs of x as (slots, dim), by coordinate.
Value BiInteraction(GraphBuilder* graph, std::string name, Value x, int dim);
// A row as a matrix with so many columns, transposed.
Value Transpose(GraphBuilder* graph, std::string name, Value x, int columns);
// The sum of a row's `positions` equal parts.
Value SumPositions(GraphBuilder* graph, std::string name, Value x, int positions);
// One layer of a compressed interaction network: `maps` weighted sums, plus a
// bias each, of the products of x0's and x's maps, coordinate by coordinate.
// x0, x and the result stand as (dim, maps).
struct CinLayerOptions {
  int dim = 1, maps = 1;
};
Value CinLayer(GraphBuilder* graph, std::string name, Value x0, Value x,
               const CinLayerOptions& options);
// (a's width * b's): the products of all of a with all of b.
Value Outer(GraphBuilder* graph, std::string name, Value a, Value b);
// (pairs * dim): vector i of a times vector j of b, coordinate by coordinate, for i < j.
Value PairProducts(GraphBuilder* graph, std::string name, Value a, Value b, int dim);
// scale * a * b, column by column.
Value Multiply(GraphBuilder* graph, std::string name, Value a, Value b, double scale);
// (1): the sum over heads of x_h' W_h y_h; x_h and y_h are head h's share of the columns.
// REQUIRES: `heads` divides both widths.
Value Bilinear(GraphBuilder* graph, std::string name, Value x, Value y, int heads);

// x as (positions, n) times one W (n, width) for all positions, without bias.
Value PositionLinear(GraphBuilder* graph, std::string name, Value x, int positions, int width);
// (heads * fields * fields): by head and field, how much that field takes of
// each, softmax(q k' / sqrt(width of a head)).
Value AttentionWeights(GraphBuilder* graph, std::string name, Value q, Value k, int fields,
                       int heads);
// Each field's mix of the rows of v, head by head.
Value AttentionMix(GraphBuilder* graph, std::string name, Value weights, Value v, int fields,
                   int heads);
// Columns begin .. begin + width - 1 of x, range after range; ranges may overlap.
// REQUIRES: they lie inside x.
struct ColumnRange {
  int begin = 0, width = 0;
};
Value Columns(GraphBuilder* graph, std::string name, Value x, std::vector<ColumnRange> ranges);
Value Concat(GraphBuilder* graph, std::string name, std::vector<Value> inputs);
Value Add(GraphBuilder* graph, std::string name, std::vector<Value> inputs);

// Group g's columns of x times a matrix of its own, plus a bias if wanted: (groups * width).
// The weights are (groups, x.width / groups, width).
Value GroupedLinear(GraphBuilder* graph, std::string name, Value x, int groups, int width,
                    bool bias = true);
// Of each row. In place.
Value Softmax(GraphBuilder* graph, std::string name, Value x);
// (width): the sum of vectors of that width, which stand side by side in
// `experts`, value after value, each times its column of `weights`.
Value Mix(GraphBuilder* graph, std::string name, Value weights, const std::vector<Value>& experts,
          int width);
// Each row divided by its Euclidean norm.
Value Normalize(GraphBuilder* graph, std::string name, Value x);
// (1): scale * (a . b), row by row, plus a bias that is learned.
Value Dot(GraphBuilder* graph, std::string name, Value a, Value b, double scale);

// Sequences, position by position. A value on positions goes through all ops
// above as one on rows does.

// (positions, sum of dims): the embeddings of aligned slots, side by side.
Value SequenceInput(GraphBuilder* graph, std::string name, std::vector<SlotSpec> slots);
// A row's positions become one; zeros if there are none.
Value SequencePool(GraphBuilder* graph, std::string name, Value x, SequencePooling kind);
// (positions, 4 d): [target, event, target - event, target * event]; the target
// is (rows, d), the events are (positions, d).
Value AttentionInput(GraphBuilder* graph, std::string name, Value target, Value events);
// (positions, 1): x (positions, 1) made positive, with a sum of 1 in each row.
Value SequenceSoftmax(GraphBuilder* graph, std::string name, Value x);
// (rows, d): the sum of x (positions, d), each times its weight (positions, 1).
Value WeightedSum(GraphBuilder* graph, std::string name, Value weights, Value x);
// x, each of as many equal parts of a row (or position) as `scale` has columns times its own.
Value ScaleRows(GraphBuilder* graph, std::string name, Value scale, Value x);
// (positions, h): the states of a gated recurrent unit, from zeros on. `gates`
// (positions, 3 h) is what the events say to the gates reset, update and new;
// `weights` (positions, 1), if its id is not -1, scale the update: AUGRU.
Value Gru(GraphBuilder* graph, std::string name, Value gates, Value weights);
// `weight` times the mean over all pairs of neighbours of -log sigmoid(state *
// next event) - log sigmoid(-state * an event of another row of the tile).
void AuxiliaryLoss(GraphBuilder* graph, std::string name, Value states, Value events,
                   double weight);
// x between alpha * x and x, by how large x is in the batch (running moments
// when scoring). An activation, with one alpha a column.
Value Dice(GraphBuilder* graph, std::string name, Value x);

// For pass_fuse.cc: one op of a chain's parts, each the reader of the one before.
std::unique_ptr<Op> Fused(std::vector<std::unique_ptr<Op>> parts);
// And one of a head and the cross layer's x0 * u + x that alone reads it.
std::unique_ptr<Op> FusedCross(std::unique_ptr<Op> head, std::unique_ptr<Op> cross);

// The view of `slot` that the pool kernel needs.
struct SlotView;
SlotView ViewSlot(const Step& step, const SlotSpec& slot);

}  // namespace starling
