// Network: a model's graph, ready to run. The one scorer: training, `predict`
// and serving all come through here, so the same row gets the same score.
//
// Rows are taken in tiles of a fixed size, and gradients are summed in a fixed
// number of lanes (tile t belongs to lane t % lanes): tiles and lanes are
// functions of options and data, never of threads or time, so results do not
// depend on the pool. A row's score does not depend on the rows around it,
// except through ops that couple a batch while training (batch norm), and while
// training by the rounding of sums whose order follows the batch (shared_product.h).
//
// A const object; all that changes in a step lives in a Workspace. Any number
// of threads may run at once, each with a workspace of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/thread_pool.h"
#include "dense_net/model.pb.h"
#include "dense_net/real.h"
#include "sample_io/batch.h"

namespace starling {

class Device;
struct JointBatch;
struct Share;

// Where rows of a batch have vectors in common, training may multiply these once
// (shared_product.h): where that is faster; the others are for tests.
enum class Sharing { kNever, kWhereFaster, kWhereverPossible };

struct NetworkOptions {
  int tile = 256;
  int lanes = 4;
  bool fuse = true;  // Join chains of ops (graph_passes.h); no bit of a result depends on it.
  Sharing sharing = Sharing::kWhereFaster;
  const Device* device = nullptr;  // Where ops run; null: the CPU.
};

// One dense parameter tensor, (rows, cols), at `offset` in the flat vector.
struct ParamSpec {
  std::string name;
  int rows = 0, cols = 0;
  int64_t offset = 0;
  bool statistic = false;  // Batch norm's running values: their "gradient" is an addition.
  bool decay = true;       // Whether L2 applies: weights yes, biases and norms no.
  int64_t size() const { return static_cast<int64_t>(rows) * cols; }
};

// One column of the scores, and how to judge it.
struct OutputSpec {
  std::string name;
  int label = 0;            // Column of Batch::labels that it foretells.
  int given = -1;           // If set: of rows whose label of this column is positive.
  bool probability = true;  // Else a number of the label's scale.
};

// Which segments of a row a model reads.
struct SegmentNeeds {
  bool linear = false;     // One first-order weight.
  bool embedding = false;  // `dim` floats.
  bool sequences = false;  // Embeddings of positions, too.
};
SegmentNeeds NeedsOf(const ModelOptions& model);
// The model multiplies embeddings with each other: it needs an id feature, and one dim for all.
bool MultipliesEmbeddings(const ModelOptions& model);
std::string ModelNames();  // "lr, fm, …", for messages.
// An option that no model can be built from.
struct BadModelOption {
  std::string key;  // Inside the model's options, as "tower.hidden[1]"; empty: the model itself.
  std::string message;  // "hidden[1] must be in 1..65536"
};
std::optional<BadModelOption> FindBadOption(const ModelOptions& model);

class Workspace {
 public:
  virtual ~Workspace() = default;
};

class Network {
 public:
  // InvalidArgument if the spec does not describe a model: no model chosen,
  // embeddings of different dims where the model multiplies them, no feature.
  static absl::StatusOr<std::unique_ptr<Network>> Create(const GraphSpec& spec,
                                                         const NetworkOptions& options);
  virtual ~Network() = default;

  virtual const GraphSpec& spec() const = 0;
  virtual const std::vector<ParamSpec>& params() const = 0;
  virtual int64_t param_floats() const = 0;
  // One for most models; several tasks give one each, in their order.
  virtual const std::vector<OutputSpec>& outputs() const = 0;
  virtual void InitParams(std::span<Real> params) const = 0;  // By spec.seed alone.
  // Multiply-adds counted as two: GEMM only, for one row, forward and forward + backward.
  virtual double gemm_flops_forward() const = 0;
  virtual double gemm_flops_train() const = 0;
  // What the other ops do, each operation on a number counted as one. A row has one id a slot
  // and one event a sequence; ops that only training runs (dropout) are not counted.
  virtual double element_flops_forward() const = 0;
  virtual double element_flops_train() const = 0;

  virtual std::unique_ptr<Workspace> NewWorkspace() const = 0;

  // The outputs of the batch's rows into `scores`, (rows, outputs). rows[t] holds
  // the pulled weights of table t, (U, table_width[t]).
  virtual absl::Status Score(const Batch& batch, std::span<const std::span<const Real>> rows,
                             std::span<const Real> params, ThreadPool* pool, Workspace* workspace,
                             std::span<Real> scores) const = 0;

  // Forward and backward of the loss: the weighted sum of the model's losses,
  // each a mean over rows; Batch::labels is (rows, labels). Fills `scores`, row_grads[t]
  // (U, table_width[t]) and param_grads (param_floats), and returns the loss.
  // `step_seed` drives dropout. Aborted (exit 4), naming the first op that is
  // not finite, if the loss is NaN or infinite; gradients are then unspecified.
  //
  // With `share` this is one replica's part of the step (replicas.h): `batch` may then have no
  // rows, and the loss and param_grads are the joint batch's, on every replica.
  virtual absl::StatusOr<double> Train(
      const Batch& batch, std::span<const std::span<const Real>> rows, std::span<const Real> params,
      uint64_t step_seed, ThreadPool* pool, Workspace* workspace, std::span<Real> scores,
      std::span<const std::span<Real>> row_grads, std::span<Real> param_grads,
      const Share* share = nullptr) const = 0;

  // What replicas must know of a batch that they share.
  virtual void Measure(const Batch& batch, JointBatch* joint) const = 0;
  // The op that keeps a batch from being shared, by what it couples; empty: none does.
  virtual std::string UnsharedOp() const = 0;
};

}  // namespace starling
