// The exact update rules of the optimisers, as functions over spans: no locks,
// no `this`. Tables and dense parameters use the same ones. docs/formats.md
// lists the state each keeps, since checkpoints hold it.
#pragma once

#include <cstdint>
#include <span>

#include "base/optimizer.pb.h"

namespace starling {

// Floats of state for `n` weights: sgd 0; adagrad n (sum of squares); adam
// 2n + 1 (m, v, steps of this row); ftrl 2n (z, n).
int OptimizerStateSize(const OptimizerOptions& options, int n);

// State of a parameter that has not been updated yet.
void InitOptimizerState(const OptimizerOptions& options, std::span<float> state);

// One step: w and state change by gradient g. l2 is added to g and a clipped
// g is scaled first, as the options say; g is not written. The learning rate
// is the option's times lr_scale. One call is one row, or one dense tensor.
void OptimizerStep(const OptimizerOptions& options, float lr_scale, std::span<float> weights,
                   std::span<float> state, std::span<const float> grad);

// Name of the rule ("adagrad"), as the YAML key has it.
const char* OptimizerName(const OptimizerOptions& options);

}  // namespace starling
