#include "dense_net/onnx_graph.h"

// What Debian built the library with.
#define ONNX_NAMESPACE onnx
#define ONNX_ML 1
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"

namespace starling {
namespace {

constexpr int kOpset = 13;     // Oldest with all that the ops use.
constexpr int kIrVersion = 7;  // The one of that opset.

constexpr char kBatch[] = "N";  // Name of the leading axis.

// An axis has a size or, if it is the caller's, a name.
using ShapeAxis = std::variant<int64_t, std::string>;
void SetType(onnx::ValueInfoProto* value, const std::string& name, int type,
             const std::vector<ShapeAxis>& shape) {
  value->set_name(name);
  auto* tensor = value->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(type);
  for (const ShapeAxis& axis : shape) {
    auto* dim = tensor->mutable_shape()->add_dim();
    if (const int64_t* size = std::get_if<int64_t>(&axis)) dim->set_dim_value(*size);
    if (const std::string* named = std::get_if<std::string>(&axis)) dim->set_dim_param(*named);
  }
}
void SetMatrix(onnx::ValueInfoProto* value, const std::string& name, int64_t width) {
  SetType(value, name, onnx::TensorProto::FLOAT, {kBatch, width});
}

struct SetAttribute {
  onnx::AttributeProto* to;
  void operator()(int64_t value) const {
    to->set_type(onnx::AttributeProto::INT);
    to->set_i(value);
  }
  void operator()(float value) const {
    to->set_type(onnx::AttributeProto::FLOAT);
    to->set_f(value);
  }
  void operator()(const std::string& value) const {
    to->set_type(onnx::AttributeProto::STRING);
    to->set_s(value);
  }
  void operator()(const std::vector<int64_t>& values) const {
    to->set_type(onnx::AttributeProto::INTS);
    for (int64_t value : values) to->add_ints(value);
  }
};

}  // namespace

struct OnnxGraph::Impl {
  onnx::ModelProto model;
  onnx::GraphProto* body = nullptr;      // Of the Scan that nodes go into; null: the model's graph.
  std::string op;                        // Name of the op that is being mapped.
  int next = 0;                          // Number of its next value.
  std::set<std::string> inputs;          // Names taken.
  std::set<std::string> params;          // Initializers made.
  std::map<int, std::string> sequences;  // By sequence of the graph: the input of its positions.

  onnx::GraphProto* graph() { return model.mutable_graph(); }
  std::string NewName() { return absl::StrCat(op, "/", next++); }
  // Initializers belong to the model's graph, which a body sees too.
  onnx::TensorProto* AddTensor(const std::string& name, int type,
                               const std::vector<int64_t>& shape) {
    onnx::TensorProto* tensor = graph()->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(type);
    for (int64_t n : shape) tensor->add_dims(n);
    return tensor;
  }
};

OnnxGraph::OnnxGraph(const Graph& graph, std::span<const float> params)
    : graph_(graph), params_(params), impl_(std::make_unique<Impl>()) {}
OnnxGraph::~OnnxGraph() = default;

std::string OnnxGraph::Input(const std::string& name, int width) {
  if (!impl_->inputs.insert(name).second) return name;
  SetMatrix(impl_->graph()->add_input(), name, width);
  return name;
}

std::vector<std::string> OnnxGraph::Nodes(const std::string& type,
                                          const std::vector<std::string>& inputs,
                                          const std::vector<OnnxAttribute>& attributes,
                                          int outputs) {
  onnx::NodeProto* node = (impl_->body == nullptr ? impl_->graph() : impl_->body)->add_node();
  node->set_op_type(type);
  for (const std::string& input : inputs) node->add_input(input);
  std::vector<std::string> names;
  for (int i = 0; i < outputs; ++i) node->add_output(names.emplace_back(impl_->NewName()));
  node->set_name(names[0]);
  for (const OnnxAttribute& attribute : attributes) {
    onnx::AttributeProto* to = node->add_attribute();
    to->set_name(attribute.name);
    std::visit(SetAttribute{to}, attribute.value);
  }
  return names;
}

std::string OnnxGraph::Node(const std::string& type, const std::vector<std::string>& inputs,
                            const std::vector<OnnxAttribute>& attributes) {
  return Nodes(type, inputs, attributes, 1)[0];
}

const ParamSpec& OnnxGraph::SpecAt(int64_t offset) const {
  return *std::find_if(graph_.params.begin(), graph_.params.end(),
                       [&](const ParamSpec& spec) { return spec.offset == offset; });
}

std::string OnnxGraph::Param(int64_t offset) {
  const ParamSpec& spec = SpecAt(offset);
  return Param(offset, {spec.rows, spec.cols});
}

std::string OnnxGraph::Param(int64_t offset, const std::vector<int64_t>& shape) {
  const ParamSpec& spec = SpecAt(offset);
  std::string name = spec.name;
  if (shape != std::vector<int64_t>{spec.rows, spec.cols}) {
    absl::StrAppend(&name, ":", absl::StrJoin(shape, "x"));
  }
  if (!impl_->params.insert(name).second) return name;
  impl_->AddTensor(name, onnx::TensorProto::FLOAT, shape)
      ->set_raw_data(params_.data() + offset, spec.size() * sizeof(float));
  return name;
}

std::string OnnxGraph::Floats(std::span<const float> values, const std::vector<int64_t>& shape) {
  const std::string name = impl_->NewName();
  impl_->AddTensor(name, onnx::TensorProto::FLOAT, shape)
      ->set_raw_data(values.data(), values.size_bytes());
  return name;
}

std::string OnnxGraph::Ints(const std::vector<int64_t>& values) {
  const std::string name = impl_->NewName();
  impl_->AddTensor(name, onnx::TensorProto::INT64, {std::ssize(values)})
      ->set_raw_data(values.data(), values.size() * sizeof(int64_t));
  return name;
}

std::string OnnxGraph::Reshape(const std::string& x, const std::vector<int64_t>& shape) {
  return Node("Reshape", {x, Ints(shape)});
}

std::string OnnxGraph::Sum(const std::string& x, int64_t axis, bool keep_axis) {
  return Node("ReduceSum", {x, Ints({axis})}, {{"keepdims", int64_t{keep_axis}}});
}

std::string OnnxGraph::Slice(const std::string& x, int64_t begin, int64_t end) {
  return Node("Slice", {x, Ints({begin}), Ints({end}), Ints({1})});
}

std::string OnnxGraph::Gather(const std::string& x, const std::vector<int64_t>& indices) {
  return Node("Gather", {x, Ints(indices)}, {{"axis", int64_t{1}}});
}

std::string OnnxGraph::Transpose(const std::string& x, const std::vector<int64_t>& axes) {
  return Node("Transpose", {x}, {{"perm", axes}});
}

std::string OnnxGraph::Dot(const std::string& a, const std::string& b) {
  return Sum(Node("Mul", {a, b}), 1, true);
}

std::string OnnxGraph::GroupMatMul(const std::string& x, int64_t offset, const Groups& shape) {
  const auto [groups, k, n] = shape;
  const std::string split = Reshape(x, {-1, groups, 1, k});
  const std::string product = Node("MatMul", {split, Param(offset, {groups, k, n})});
  return Reshape(product, {-1, groups * n});
}

// Values on the positions of sequences.

std::string OnnxGraph::SequenceInput(int sequence, const std::string& name, int width) {
  impl_->sequences[sequence] = name;
  impl_->inputs.insert(name);
  impl_->inputs.insert(name + ".lengths");
  const std::string longest = absl::StrCat(name, ".T");
  SetType(impl_->graph()->add_input(), name, onnx::TensorProto::FLOAT,
          {kBatch, longest, int64_t{width}});
  SetType(impl_->graph()->add_input(), name + ".lengths", onnx::TensorProto::INT64, {kBatch});
  return Flatten(name, width);
}

std::string OnnxGraph::Lengths(int sequence) const {
  return impl_->sequences.at(sequence) + ".lengths";
}

std::string OnnxGraph::ShapeOf(int sequence, int64_t axes, int64_t width) {
  const std::string shape = Node("Shape", {impl_->sequences.at(sequence)});
  const std::string some = Node("Slice", {shape, Ints({0}), Ints({axes}), Ints({0})});
  return Node("Concat", {some, Ints({width})}, {{"axis", int64_t{0}}});
}

std::string OnnxGraph::Unflatten(const std::string& x, int sequence, int64_t width) {
  return Node("Reshape", {x, ShapeOf(sequence, 2, width)});
}

std::string OnnxGraph::Spread(const std::string& x, int sequence, int64_t width) {
  const std::string one = Reshape(x, {-1, 1, width});
  return Flatten(Node("Expand", {one, ShapeOf(sequence, 2, width)}), width);
}

std::string OnnxGraph::Index(int sequence) {
  const std::string shape = Node("Shape", {impl_->sequences.at(sequence)});
  // The positions 0, 1, … are where a vector of T ones is not zero.
  const std::string t = Node("Slice", {shape, Ints({1}), Ints({2}), Ints({0})});
  const std::string ones = Node("Expand", {Ints({1}), t});
  return Reshape(Node("NonZero", {ones}), {1, -1, 1});
}

std::string OnnxGraph::IsPosition(int sequence) {
  return Node("Less", {Index(sequence), Reshape(Lengths(sequence), {-1, 1, 1})});
}

std::string OnnxGraph::IsLast(int sequence) {
  const std::string last = Node("Sub", {Reshape(Lengths(sequence), {-1, 1, 1}), Ints({1})});
  return Node("Equal", {Index(sequence), last});
}

std::string OnnxGraph::Scan(int sequence, int64_t width, const std::vector<std::string>& values,
                            const std::vector<int64_t>& widths, const ScanStep& step) {
  std::vector<std::string> inputs = {
      Node("Expand", {Float(0), ShapeOf(sequence, 1, width)})};  // The state, (N, width).
  for (size_t i = 0; i < values.size(); ++i) {
    inputs.push_back(Transpose(Unflatten(values[i], sequence, widths[i]), {1, 0, 2}));
  }
  onnx::GraphProto body;
  body.set_name(impl_->NewName());
  std::vector<std::string> names;
  for (size_t i = 0; i < inputs.size(); ++i) {
    SetMatrix(body.add_input(), names.emplace_back(impl_->NewName()),
              i == 0 ? width : widths[i - 1]);
  }
  impl_->body = &body;
  const std::string after = step(names[0], {names.begin() + 1, names.end()});
  const std::string copy = Node("Identity", {after});
  impl_->body = nullptr;
  SetMatrix(body.add_output(), after, width);  // The next state,
  SetMatrix(body.add_output(), copy, width);   // and what is kept of this one.
  const std::vector<std::string> outputs =
      Nodes("Scan", inputs, {{"num_scan_inputs", std::ssize(values)}}, 2);
  onnx::AttributeProto* attribute =
      impl_->graph()->mutable_node(impl_->graph()->node_size() - 1)->add_attribute();
  attribute->set_name("body");
  attribute->set_type(onnx::AttributeProto::GRAPH);
  *attribute->mutable_g() = std::move(body);
  return Flatten(Transpose(outputs[1], {1, 0, 2}), width);
}

void OnnxGraph::Output(const std::string& name, const std::string& value, int width) {
  onnx::NodeProto* node = impl_->graph()->add_node();
  node->set_op_type("Identity");
  node->set_name(name);
  node->add_input(value);
  node->add_output(name);
  SetMatrix(impl_->graph()->add_output(), name, width);
}

void OnnxGraph::Property(const std::string& key, const std::string& value) {
  onnx::StringStringEntryProto* property = impl_->model.add_metadata_props();
  property->set_key(key);
  property->set_value(value);
}

absl::StatusOr<std::string> OnnxGraph::Finish(const std::string& name) {
  onnx::ModelProto& model = impl_->model;
  model.set_ir_version(kIrVersion);
  model.set_producer_name("starling");
  model.add_opset_import()->set_version(kOpset);
  impl_->graph()->set_name(name);
  std::vector<std::string> values;  // By op.
  for (const auto& op : graph_.ops) {
    impl_->op = op->name();
    impl_->next = 0;
    std::vector<std::string> in;
    for (const Value& input : op->inputs()) in.push_back(values[input.id]);
    ASSIGN_OR_RETURN(values.emplace_back(), op->ToOnnx(in, this));
  }
  for (const Graph::Vector& vector : graph_.vectors) {
    Output(vector.name, values[vector.op], graph_.ops[vector.op]->width());
  }
  for (const onnx::ValueInfoProto& output : impl_->graph()->output()) {
    if (!impl_->inputs.contains(output.name()) && !impl_->params.contains(output.name())) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("onnx: output `", output.name(), "` has the name of an input or parameter"));
  }
  return model.SerializeAsString();
}

}  // namespace starling
