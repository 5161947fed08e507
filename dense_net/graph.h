// A model as a static dataflow graph of named ops.
//
// Every value of the graph is a matrix (rows of the batch, width), or (positions
// of a sequence, width), the positions of a row standing together in their order:
// there is no padding, and an op on positions is the same op on more rows. Ops stand in
// the order they run; the backward pass takes them in reverse. An op is one
// file (op_*.cc): its width rule, forward, backward and FLOPs. Ops are const:
// what a step changes lives in memory that the executor (forward.h) hands them
// a tile of rows at a time, through an OpTile.
//
// Building is single-threaded; a finished Graph is constant.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dense_net/device.h"
#include "dense_net/forward.h"
#include "dense_net/share.h"

namespace starling {

// A value of the graph: the output of op `id`.
struct Value {
  int id = -1;
  int width = 0;
  int sequence = -1;  // Its rows are the positions of Graph::sequences[sequence]; -1: the batch's.
  int embedding = 0;  // Its first so many columns are the embedding's, all of them.
};

struct SharedSlots;

// What all tiles of one step share.
struct Step {
  const Device* device = nullptr;
  const Batch* batch = nullptr;
  std::span<const std::span<const Real>> rows;  // Pulled weights, by table.
  const Real* params = nullptr;
  uint64_t seed = 0;
  bool training = false;
  int tile = 0;                 // Rows of a full tile.
  int tiles = 0;                // Tiles of the batch.
  int outputs = 1, labels = 1;  // Columns of the scores and of the batch's labels.
  Real* scores = nullptr;       // (rows, outputs)
  double* tile_loss = nullptr;  // (tiles): each loss adds its weighted sum over the tile's rows.
  // By sequence of the graph, (rows + 1): row r has positions [p[r], p[r + 1]).
  std::span<const std::vector<int64_t>> positions;
  const SharedSlots* shared = nullptr;  // Null: none.
  Share share;                          // What part of which batch this is.

  // The same row, or position, in the joint batch.
  int64_t JointRow(int sequence, int64_t row) const {
    return row + share.joint->Before(sequence, first_tile());
  }
  int first_tile() const { return share.first_tiles[share.replica]; }
  // Gradients are summed over replicas; what each of them computes whole is added by one.
  bool adds_joint() const { return share.replica == 0; }

  // Rows, or positions, before a row of the batch; in all; and of a tile.
  int64_t Before(int sequence, int64_t row) const {
    return sequence < 0 ? row : positions[sequence][row];
  }
  int64_t Rows(int sequence) const { return Before(sequence, batch->rows); }
  int64_t TileRows(int sequence, int t) const {
    const int64_t first = int64_t{t} * tile, end = std::min<int64_t>(first + tile, batch->rows);
    return Before(sequence, end) - Before(sequence, first);
  }
};

// An op's view of one tile. All matrices are dense; `first` is the row, of the
// batch or of a sequence's positions, that stands in row 0 of the op's output.
inline constexpr int kOpInputsMax = 16;
struct OpTile {
  const Step* step = nullptr;
  int index = 0;
  int64_t first = 0;
  int rows = 0;
  int64_t batch_first = 0;  // The same on the batch's rows, whatever the op's.
  int batch_rows = 0;
  std::array<const Real*, kOpInputsMax> in{};
  Real* out = nullptr;
  // Backward only. A null in_grad is not wanted; in_add says that it already
  // holds the gradient by way of another op and is to be added to.
  std::array<Real*, kOpInputsMax> in_grad{};
  std::array<bool, kOpInputsMax> in_add{};
  Real* out_grad = nullptr;     // Read by this op alone, which may overwrite it.
  Real* param_grads = nullptr;  // The lane's sums, (param_floats).
  Real* state = nullptr;        // The op's memory of this step, StateFloats.
  Real* scratch = nullptr;      // The thread's, ScratchFloats.
  Real* kept = nullptr;         // (rows, kept_width): as long-lived as the output.
  const Device& device() const { return *step->device; }
  const Kernels& kernels() const { return step->device->kernels(); }
  const FieldKernels& fields() const { return step->device->fields(); }
  const SequenceKernels& sequences() const { return step->device->sequences(); }
  const LossKernels& losses() const { return step->device->losses(); }

  // The positions of the tile's rows.
  Positions PositionsOf(int sequence) const {
    return {batch_rows, step->positions[sequence].data() + batch_first};
  }
  // Where the positions of row i of the tile begin in its matrices; i <= batch_rows.
  int64_t PositionsBefore(int sequence, int i) const {
    const std::vector<int64_t>& positions = step->positions[sequence];
    return positions[batch_first + i] - positions[batch_first];
  }
};

class OnnxGraph;

// Of each number: the largest, less it, exp, the sum, divided.
inline constexpr double kSoftmaxFlops = 5;

// How pass_fuse.cc may join an op with those around it.
enum class Fusing {
  kNone,
  kHead,      // A row of the output follows from that row of input 0.
  kTail,      // In place. Backward reads of the output no more than where it is positive,
              // and forward leaves that as it is, or zero.
  kLastTail,  // In place, but backward reads the output.
  kCombine,   // Reads a head as input 1 beside other values, row by row; backward reads it again.
};

class Op {
 public:
  Op(std::string name, std::vector<Value> inputs, int width)
      : name_(std::move(name)), inputs_(std::move(inputs)), width_(width) {}
  virtual ~Op() = default;

  const std::string& name() const { return name_; }
  const std::vector<Value>& inputs() const { return inputs_; }
  int width() const { return width_; }
  // Value::sequence of the output: that of input 0, unless the op says.
  virtual int sequence() const { return inputs_.empty() ? -1 : inputs_[0].sequence; }

  virtual void Forward(const OpTile& tile) const = 0;
  virtual void Backward(const OpTile& tile) const = 0;

  // GEMM operations of one row, a multiply-add being two: forward, and backward
  // given whether the input's gradient is wanted.
  virtual double ForwardFlops() const { return 0; }
  virtual double BackwardFlops(bool /*input_grad*/) const { return 0; }
  // All other operations of one row as scoring runs it: an addition, product, comparison or
  // function of one number is one. Backward is taken to have twice as many.
  virtual double ElementFlops() const = 0;

  // Floats a row beside the output that backward reads again.
  virtual int kept_width() const { return 0; }
  // The output may take the place of input 0, which nothing else then reads.
  virtual bool in_place() const { return false; }
  // The output depends on parameters or table rows, so its gradient is wanted.
  virtual bool trainable() const { return false; }
  // The gradient of the output is kept for the whole batch: table rows need it.
  virtual bool keeps_gradient() const { return false; }
  // Adds to the loss: wanted for itself, whether or not another op reads it.
  virtual bool is_loss() const { return false; }
  // Ops with equal keys and inputs have equal outputs (pass_common.cc). Empty:
  // the op equals none but itself, as those with parameters or masks do.
  virtual std::string Key() const { return ""; }

  virtual Fusing fusing() const { return Fusing::kNone; }

  virtual int64_t StateFloats(const Step& /*step*/) const { return 0; }
  // `tile`: the most rows, or positions, of a tile.
  virtual int64_t ScratchFloats(int /*tile*/) const { return 0; }
  // Adds the scoring form of this op to `onnx` and returns the name of its
  // output; in[i] is that of input i. By default Unimplemented, naming the op.
  virtual absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                             OnnxGraph* onnx) const;

  // Fills the state, once a step, before any tile.
  virtual void Prepare(const Step& /*step*/, Real* /*state*/) const {}

  // Work on the whole batch, in parts that run side by side: after Prepare and before
  // any tile; and after all tiles, where param_grads has the sum of the lanes.
  virtual int Parts(const Step& /*step*/) const { return 0; }
  virtual void BeforeTiles(const Step& /*step*/, int /*part*/, Real* /*state*/) const {}
  virtual void AfterTiles(const Step& /*step*/, int /*part*/, Real* /*state*/,
                          Real* /*param_grads*/) const {}
  // What it takes from Step::shared: of requests alone, or of ids too.
  enum class Shares { kNothing, kRequests, kAll };
  virtual Shares shares() const { return Shares::kNothing; }
  // Does without the columns of requests in the rows of its input 0, if that begins with the
  // embedding: SharedSlots::requests_apart.
  virtual bool takes_requests_apart() const { return false; }
  // Value::embedding of the output.
  virtual int embedding() const { return 0; }

  // For passes: input v becomes the output of op new_id[its id].
  void RenumberInputs(std::span<const int> new_id);

 private:
  const std::string name_;
  std::vector<Value> inputs_;
  const int width_;
};

// An op that couples the rows of a batch while training. The executor lets all
// tiles arrive, each leaving a part in the state (Reduce), has one thread join
// the parts in the order of tiles (Combine), and only then goes on with Forward
// or Backward of every tile. Scoring has no such barrier. Replicas exchange their tiles'
// parts before each of them joins all.
class CoupledOp : public Op {
 public:
  using Op::Op;
  // Where in the state the parts of the joint batch's tiles stand, one after the
  // other, and their size; null: what the op couples cannot be joined over replicas.
  virtual Real* JointParts(Real* /*state*/) const { return nullptr; }
  virtual int64_t JointPartFloats() const { return 0; }
  virtual void ReduceForward(const OpTile& tile) const = 0;
  virtual void CombineForward(const Step& step, Real* state, Real* param_grads) const = 0;
  virtual void ReduceBackward(const OpTile& tile) const = 0;
  virtual void CombineBackward(const Step& step, Real* state, Real* param_grads) const = 0;
};

enum class Init { kZero, kOne, kQuarter, kXavierNormal };

// The positions of slots that are aligned, and the op that reads these.
struct SequenceAxis {
  int input = -1;
  std::vector<SlotSpec> slots;
};

struct Graph {
  std::vector<std::unique_ptr<Op>> ops;  // In running order.
  std::vector<ParamSpec> params;
  std::vector<Init> inits;  // One a parameter.
  int64_t param_floats = 0;
  std::vector<OutputSpec> outputs;  // Columns of the scores.
  // The two ops that read table rows; -1 if the model has none.
  int embedding = -1, linear = -1;
  std::vector<SequenceAxis> sequences;
  // Values beside the scores that the ONNX form gives too.
  struct Vector {
    std::string name;
    int op = -1;
  };
  std::vector<Vector> vectors;
};

// After a pass has moved ops: what was op i is op new_id[i], everywhere in the graph.
void Renumber(std::span<const int> new_id, Graph* graph);

// Collects ops and parameters in order; the op factories (ops.h) use it.
class GraphBuilder {
 public:
  // Returns the parameter's offset in the flat vector.
  int64_t AddParam(std::string name, int rows, int cols, Init init, bool decay,
                   bool statistic = false);
  Value Append(std::unique_ptr<Op> op);
  // Returns the output's column of the scores.
  int AddOutput(OutputSpec output);
  Graph& graph() { return graph_; }
  Graph Finish() { return std::move(graph_); }

 private:
  Graph graph_;
};

}  // namespace starling
