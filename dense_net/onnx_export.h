// Writes the dense part of a model as ONNX, for servers that speak it. The rows
// of tables stay outside: whoever runs the model looks up and pools them.
#pragma once

#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "dense_net/model.pb.h"

namespace starling {

// The bytes of an ONNX model (opset 13). Inputs, float (N, width):
//   embedding   the pooled embeddings of the slots, side by side in the spec's order
//   linear      the sum of the pooled first-order weights of all slots
//   raw         the raw features, normalised, in the spec's order
// each only if the model reads it. Outputs, float (N, 1), have the names of the
// model's outputs; without tasks the one output is `score`. The metadata
// property `starling.graph` holds the spec, as JSON, with the slots' names.
// Unimplemented, naming the op, if one has no ONNX form: those of sequences.
// InvalidArgument if an output has the name of an input or parameter.
absl::StatusOr<std::string> ExportOnnx(const GraphSpec& spec, std::span<const float> params,
                                       const std::string& name);

}  // namespace starling
