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
// each only if the model reads it. The output `score` is (N, 1). The metadata
// property `starling.graph` holds the spec, as JSON, with the slots' names.
// Unimplemented, naming the op, if one has no ONNX form.
absl::StatusOr<std::string> ExportOnnx(const GraphSpec& spec, std::span<const float> params,
                                       const std::string& name);

}  // namespace starling
