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
// In place.
Value Activate(GraphBuilder* graph, std::string name, Value x, MlpOptions::Activation kind);
// Inverted dropout: identity when scoring. The mask is a function of the
// step's seed, the op, the row and the column.
Value Dropout(GraphBuilder* graph, std::string name, Value x, double share);

// (1): half of (squared sum - sum of squares) over x as (slots, dim).
Value FmSecondOrder(GraphBuilder* graph, Value x, int dim);
// x0 * u + x: one layer of DCN-v2 once u = W x + b.
Value CrossCombine(GraphBuilder* graph, std::string name, Value x0, Value u, Value x);
Value Concat(GraphBuilder* graph, std::string name, std::vector<Value> inputs);
Value Add(GraphBuilder* graph, std::string name, std::vector<Value> inputs);

// Ends the graph: scores = sigmoid(x), and the mean log loss.
void LogLoss(GraphBuilder* graph, Value logit);

// For pass_fuse.cc: one op of a chain's parts, each the reader of the one before.
std::unique_ptr<Op> Fused(std::vector<std::unique_ptr<Op>> parts);

// The view of `slot` that the pool kernel needs.
struct SlotView;
SlotView ViewSlot(const Step& step, const SlotSpec& slot);

}  // namespace starling
