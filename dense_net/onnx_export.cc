#include "dense_net/onnx_export.h"

#include <google/protobuf/util/json_util.h>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "dense_net/graph_passes.h"
#include "dense_net/models.h"
#include "dense_net/onnx_graph.h"

namespace starling {

absl::StatusOr<std::string> ExportOnnx(const GraphSpec& spec, std::span<const float> params,
                                       const std::string& name) {
  ASSIGN_OR_RETURN(Graph graph, BuildGraph(spec));
  if (std::ssize(params) != graph.param_floats) {
    return absl::InvalidArgumentError(absl::StrCat("onnx: ", params.size(), " parameters given, ",
                                                   graph.param_floats, " expected"));
  }
  RemoveDeadOps(&graph);  // An input that nothing reads is none.
  OnnxGraph onnx(graph, params);
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(spec, &json).ok()) {
    return absl::InternalError("onnx: the spec has no JSON form");
  }
  onnx.Property("starling.graph", json);
  return onnx.Finish(name);
}

}  // namespace starling
