// The dense part of a model as an ONNX model: what each op adds to it.
//
// An op maps itself to ONNX nodes in Op::ToOnnx, by this builder. Values keep
// their shape (N, width), N the batch; those on positions are (N * T, width), T the
// longest sequence, each row's positions first and then whatever the caller put
// in the rest, which never reaches a row. Inputs of the ONNX model are the values
// that read tables and raw columns: the caller looks up and pools, ONNX does
// the rest. Parameters become initializers under their own names.
//
// Building is single-threaded.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "dense_net/graph.h"

namespace starling {

struct OnnxAttribute {
  std::string name;
  std::variant<int64_t, float, std::string, std::vector<int64_t>> value;
};

class OnnxGraph {
 public:
  // `graph` and `params` (param_floats) outlive the builder.
  OnnxGraph(const Graph& graph, std::span<const float> params);
  ~OnnxGraph();

  // For ops. All return the name of a value.
  std::string Input(const std::string& name, int width);
  // The positions of a sequence of the graph, (N * T, width): from an input `name`, float
  // (N, T, width), and one `name`.lengths, int64 (N).
  std::string SequenceInput(int sequence, const std::string& name, int width);
  std::string Node(const std::string& type, const std::vector<std::string>& inputs,
                   const std::vector<OnnxAttribute>& attributes = {});
  // As Node, for the types with several outputs (Split, GRU).
  std::vector<std::string> Nodes(const std::string& type, const std::vector<std::string>& inputs,
                                 const std::vector<OnnxAttribute>& attributes, int outputs);
  // The parameter that begins at `offset`, (rows, cols); or in another shape of the same size.
  std::string Param(int64_t offset);
  std::string Param(int64_t offset, const std::vector<int64_t>& shape);
  std::string Floats(std::span<const float> values, const std::vector<int64_t>& shape);
  std::string Float(float value) { return Floats({&value, 1}, {}); }
  std::string Ints(const std::vector<int64_t>& values);
  // x in another shape; one -1 is derived.
  std::string Reshape(const std::string& x, const std::vector<int64_t>& shape);
  std::string Sum(const std::string& x, int64_t axis, bool keep_axis);
  // Columns [begin, end) of axis 1.
  std::string Slice(const std::string& x, int64_t begin, int64_t end);

  // Entries `indices` of axis 1, in their order.
  std::string Gather(const std::string& x, const std::vector<int64_t>& indices);
  // Axis i of the result is axis axes[i] of x.
  std::string Transpose(const std::string& x, const std::vector<int64_t>& axes);
  // (N, 1): the sum of a * b over the columns.
  std::string Dot(const std::string& a, const std::string& b);
  // Group g's columns of x times matrix g of the parameter at `offset`,
  // (groups, k, n): (N, groups * n).
  struct Groups {
    int64_t groups, k, n;
  };
  std::string GroupMatMul(const std::string& x, int64_t offset, const Groups& shape);

  // For values on the positions of a sequence: (N * T, width) as (N, T, width) and back;
  std::string Unflatten(const std::string& x, int sequence, int64_t width);
  std::string Flatten(const std::string& x, int64_t width) { return Reshape(x, {-1, width}); }
  // row values (N, width) for every position, (N * T, width);
  std::string Spread(const std::string& x, int sequence, int64_t width);
  // bool (N, T, 1): where there is a position, and where the last one is.
  std::string IsPosition(int sequence);
  std::string IsLast(int sequence);
  std::string Lengths(int sequence) const;  // int64 (N)
  // x (N, T, width) with `other` in place of what `where` does not hold for.
  std::string Where(const std::string& where, const std::string& x, float other) {
    return Node("Where", {where, x, Float(other)});
  }
  // The states (N * T, width) of a recurrence over the positions, from zeros on: `step` maps
  // the state before, (N, width), and the values there, (N, widths[i]), to the state after.
  using ScanStep =
      std::function<std::string(const std::string& state, const std::vector<std::string>& values)>;
  std::string Scan(int sequence, int64_t width, const std::vector<std::string>& values,
                   const std::vector<int64_t>& widths, const ScanStep& step);

  // Makes a value of the graph an output of the model.
  void Output(const std::string& name, const std::string& value, int width);

  // A metadata property of the model.
  void Property(const std::string& key, const std::string& value);

  // Maps all ops, and returns the model's
  // bytes. Unimplemented, naming the op, if one has no ONNX form.
  absl::StatusOr<std::string> Finish(const std::string& name);

 private:
  struct Impl;
  std::string Index(int sequence);                                 // int64 (1, T, 1): 0, 1, …
  std::string ShapeOf(int sequence, int64_t axes, int64_t width);  // [N, T][:axes] and width.
  const ParamSpec& SpecAt(int64_t offset) const;

  const Graph& graph_;
  const std::span<const float> params_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace starling
