#include "dense_net/graph.h"

#include <utility>

namespace starling {

absl::StatusOr<std::string> Op::ToOnnx(const std::vector<std::string>&, OnnxGraph*) const {
  return absl::UnimplementedError(absl::StrCat("op `", name_, "` has no ONNX form"));
}

int64_t GraphBuilder::AddParam(std::string name, int rows, int cols, Init init, bool decay,
                               bool statistic) {
  ParamSpec spec;
  spec.name = std::move(name);
  spec.rows = rows;
  spec.cols = cols;
  spec.offset = graph_.param_floats;
  spec.statistic = statistic;
  spec.decay = decay;
  graph_.param_floats += spec.size();
  graph_.params.push_back(std::move(spec));
  graph_.inits.push_back(init);
  return graph_.params.back().offset;
}

void Op::RenumberInputs(std::span<const int> new_id) {
  for (Value& input : inputs_) input.id = new_id[input.id];
}

void Renumber(std::span<const int> new_id, Graph* graph) {
  for (const auto& op : graph->ops) op->RenumberInputs(new_id);
  for (int* id : {&graph->embedding, &graph->linear}) {
    if (*id >= 0) *id = new_id[*id];
  }
  for (SequenceAxis& axis : graph->sequences) axis.input = new_id[axis.input];
  for (Graph::Vector& vector : graph->vectors) vector.op = new_id[vector.op];
}

Value GraphBuilder::Append(std::unique_ptr<Op> op) {
  const Value value{static_cast<int>(graph_.ops.size()), op->width(), op->sequence(),
                    op->embedding()};
  graph_.ops.push_back(std::move(op));
  return value;
}

int GraphBuilder::AddOutput(OutputSpec output) {
  graph_.outputs.push_back(std::move(output));
  return static_cast<int>(graph_.outputs.size()) - 1;
}

}  // namespace starling
