#include "dense_net/models.h"

namespace starling {

// Logistic regression: one weight an id, one a raw, and a bias.
Value BuildLr(const GraphSpec& spec, GraphBuilder* graph) {
  return LinearLogit(spec, MakeInputs(spec, graph, false), graph);
}

}  // namespace starling
