#include "dense_net/onnx_graph.h"

// What Debian built the library with.
#define ONNX_NAMESPACE onnx
#define ONNX_ML 1
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"

namespace starling {
namespace {

constexpr int kOpset = 13;      // Oldest with all that the ops use.
constexpr int kIrVersion = 7;   // The one of that opset.
constexpr char kBatch[] = "N";  // Name of the leading axis.

void SetType(onnx::ValueInfoProto* value, const std::string& name, int type, int64_t width) {
  value->set_name(name);
  auto* tensor = value->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(type);
  tensor->mutable_shape()->add_dim()->set_dim_param(kBatch);
  if (width > 0) tensor->mutable_shape()->add_dim()->set_dim_value(width);
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
  std::string op;                // Name of the op that is being mapped.
  int next = 0;                  // Number of its next value.
  std::set<std::string> inputs;  // Names taken.
  std::set<std::string> params;  // Initializers made.

  onnx::GraphProto* graph() { return model.mutable_graph(); }
  std::string NewName() { return absl::StrCat(op, "/", next++); }
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
  SetType(impl_->graph()->add_input(), name, onnx::TensorProto::FLOAT, width);
  return name;
}

std::string OnnxGraph::InputLengths(const std::string& name) {
  if (!impl_->inputs.insert(name).second) return name;
  SetType(impl_->graph()->add_input(), name, onnx::TensorProto::INT64, 0);
  return name;
}

std::vector<std::string> OnnxGraph::Nodes(const std::string& type,
                                          const std::vector<std::string>& inputs,
                                          const std::vector<OnnxAttribute>& attributes,
                                          int outputs) {
  onnx::NodeProto* node = impl_->graph()->add_node();
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

void OnnxGraph::Output(const std::string& name, const std::string& value, int width) {
  onnx::NodeProto* node = impl_->graph()->add_node();
  node->set_op_type("Identity");
  node->set_name(name);
  node->add_input(value);
  node->add_output(name);
  SetType(impl_->graph()->add_output(), name, onnx::TensorProto::FLOAT, width);
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
  for (const onnx::ValueInfoProto& output : impl_->graph()->output()) {
    if (!impl_->inputs.contains(output.name()) && !impl_->params.contains(output.name())) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("onnx: output `", output.name(), "` has the name of an input or parameter"));
  }
  return model.SerializeAsString();
}

}  // namespace starling
