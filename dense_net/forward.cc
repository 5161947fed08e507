#include "dense_net/forward.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/status.h"
#include "dense_net/collective.h"
#include "dense_net/graph_passes.h"
#include "dense_net/memory_plan.h"
#include "dense_net/models.h"
#include "dense_net/row_gradients.h"
#include "dense_net/step_run.h"
#include "dense_net/workspace.h"

namespace starling {
namespace {

absl::Status Mismatch(const char* what, int64_t got, int64_t want) {
  return absl::InvalidArgumentError(
      absl::StrCat("network: ", what, ": ", got, " given, ", want, " expected"));
}

class NetworkImpl : public Network {
 public:
  NetworkImpl(const GraphSpec& spec, const NetworkOptions& options, Graph graph)
      : spec_(spec),
        options_(options),
        graph_(std::move(graph)),
        pooled_(PooledSlots(spec)),
        train_plan_(PlanMemory(graph_, true)),
        score_plan_(PlanMemory(graph_, false)) {
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      const Op& op = *graph_.ops[i];
      if (dynamic_cast<const CoupledOp*>(&op) != nullptr) barriers_.push_back(static_cast<int>(i));
      const bool input_grad = !op.inputs().empty() && train_plan_.wants_grad[op.inputs()[0].id];
      shares_ = std::max(shares_, op.shares());
      for (size_t v = 0; v < op.inputs().size(); ++v) {
        if (op.inputs()[v].embedding > 0) {
          requests_apart_ = requests_apart_ && v == 0 && op.takes_requests_apart();
        }
      }
      flops_forward_ += op.ForwardFlops();
      flops_train_ += op.ForwardFlops() + op.BackwardFlops(input_grad);
      element_flops_ += op.ElementFlops();
    }
  }

  const GraphSpec& spec() const override { return spec_; }
  const std::vector<ParamSpec>& params() const override { return graph_.params; }
  int64_t param_floats() const override { return graph_.param_floats; }
  const std::vector<OutputSpec>& outputs() const override { return graph_.outputs; }
  double gemm_flops_forward() const override { return flops_forward_; }
  double gemm_flops_train() const override { return flops_train_; }
  double element_flops_forward() const override { return element_flops_; }
  double element_flops_train() const override { return 3 * element_flops_; }
  std::unique_ptr<Workspace> NewWorkspace() const override {
    return std::make_unique<StepWorkspace>();
  }

  void InitParams(std::span<Real> params) const override {
    for (size_t p = 0; p < graph_.params.size(); ++p) {
      const ParamSpec& spec = graph_.params[p];
      const uint64_t key = HashBytes(spec.name, spec_.seed());
      const double deviation = std::sqrt(2.0 / (spec.rows + spec.cols));
      for (int64_t i = 0; i < spec.size(); ++i) {
        double value = 0;
        if (graph_.inits[p] == Init::kOne) value = 1;
        if (graph_.inits[p] == Init::kQuarter) value = 0.25;
        if (graph_.inits[p] == Init::kXavierNormal) value = deviation * RandomNormal(key, i);
        params[spec.offset + i] = static_cast<Real>(value);
      }
    }
  }

  absl::Status Score(const Batch& batch, std::span<const std::span<const Real>> rows,
                     std::span<const Real> params, ThreadPool* pool, Workspace* workspace,
                     std::span<Real> scores) const override {
    RETURN_IF_ERROR(CheckBatch(batch, rows, params, scores));
    if (batch.rows == 0) return absl::OkStatus();
    auto* space = static_cast<StepWorkspace*>(workspace);
    Step step = MakeStep(batch, rows, params, scores, space, nullptr);
    StepRun(graph_, score_plan_, {}, options_.lanes, pool, step, space).Score();
    return absl::OkStatus();
  }

  absl::StatusOr<double> Train(const Batch& batch, std::span<const std::span<const Real>> rows,
                               std::span<const Real> params, uint64_t step_seed, ThreadPool* pool,
                               Workspace* workspace, std::span<Real> scores,
                               std::span<const std::span<Real>> row_grads,
                               std::span<Real> param_grads, const Share* share) const override {
    if (batch.rows == 0 && share == nullptr) {
      return absl::InvalidArgumentError("network: a training batch has no rows");
    }
    RETURN_IF_ERROR(CheckBatch(batch, rows, params, scores));
    RETURN_IF_ERROR(CheckTraining(batch, row_grads, param_grads));
    auto* space = static_cast<StepWorkspace*>(workspace);
    Step step = MakeStep(batch, rows, params, scores, space, share);
    step.training = true;
    step.seed = step_seed;
    if (Shares(batch)) {
      space->shared.Find(
          step, pooled_, options_.sharing,
          {.share_ids = shares_ == Op::Shares::kAll, .take_requests_apart = requests_apart_});
      if (!space->shared.slots.empty()) step.shared = &space->shared;
    }
    StepRun run(graph_, train_plan_, barriers_, options_.lanes, pool, step, space);
    double loss = run.Train(param_grads.data());
    if (share != nullptr) {
      const std::vector<double> losses = OfReplicas(*share, loss);
      loss = std::accumulate(losses.begin(), losses.end(), 0.0);
    }
    if (!std::isfinite(loss)) {
      int first = run.FirstNonFinite();
      if (share != nullptr) {
        const std::vector<double> ops = OfReplicas(*share, first);
        first = static_cast<int>(*std::min_element(ops.begin(), ops.end()));
      }
      return absl::AbortedError(absl::StrCat(
          "the loss is not finite; the first op with such an output is `",
          graph_.ops[first]->name(), "`. Lower the learning rate, or set train.clip_norm"));
    }
    run.FinishGradients(param_grads.data());
    SumRowGradients(step, spec_, graph_, pool, space, row_grads);
    if (share != nullptr) {
      share->collective->AllReduce(share->replica, param_floats(), param_grads.data());
    }
    return loss;
  }

  void Measure(const Batch& batch, JointBatch* joint) const override {
    std::vector<std::vector<int64_t>> positions;
    CountPositions(graph_, batch, &positions);
    MeasureBatch(batch, positions, options_.tile, joint);
  }

  std::string UnsharedOp() const override {
    for (int op : barriers_) {
      if (static_cast<const CoupledOp&>(*graph_.ops[op]).JointPartFloats() == 0) {
        return graph_.ops[op]->name();
      }
    }
    return "";
  }

 private:
  // The number of every replica, in their order.
  static std::vector<double> OfReplicas(const Share& share, double mine) {
    std::vector<double> all(share.first_tiles.size() - 1);
    share.collective->Exchange(share.replica, mine, all);
    return all;
  }

  bool Shares(const Batch& batch) const {
    if (options_.sharing == Sharing::kNever || batch.rows == 0) return false;
    return shares_ == Op::Shares::kAll ||
           (shares_ == Op::Shares::kRequests && !batch.request_of_row.empty());
  }

  Step MakeStep(const Batch& batch, std::span<const std::span<const Real>> rows,
                std::span<const Real> params, std::span<Real> scores, StepWorkspace* space,
                const Share* share) const {
    static constexpr int kAlone[] = {0};
    Step step;
    if (share != nullptr) {
      step.share = *share;
    } else {
      ViewArrays(batch, &space->arrays);
      step.share.device = options_.device == nullptr ? &CpuDevice() : options_.device;
      step.share.arrays = &space->arrays;
      step.share.first_tiles = kAlone;
    }
    step.device = step.share.device;
    step.batch = &batch;
    step.rows = rows;
    step.params = params.data();
    step.tile = options_.tile;
    step.outputs = static_cast<int>(graph_.outputs.size());
    step.labels = std::max(1, spec_.labels_size());
    step.scores = scores.data();
    return step;
  }

  absl::Status CheckBatch(const Batch& batch, std::span<const std::span<const Real>> rows,
                          std::span<const Real> params, std::span<Real> scores) const {
    const int64_t tables = spec_.table_width_size();
    if (std::ssize(batch.tables) != tables) return Mismatch("tables", batch.tables.size(), tables);
    if (std::ssize(rows) != tables) return Mismatch("tables of rows", rows.size(), tables);
    for (int t = 0; t < tables; ++t) {
      const int64_t floats = std::ssize(batch.tables[t].ids) * spec_.table_width(t);
      if (std::ssize(rows[t]) != floats) return Mismatch("floats of rows", rows[t].size(), floats);
    }
    for (const SlotSpec& slot : spec_.slots()) RETURN_IF_ERROR(CheckSlot(batch, slot));
    RETURN_IF_ERROR(CheckSequences(batch));
    const int64_t dense = int64_t{batch.rows} * spec_.raws_size();
    if (std::ssize(batch.dense) != dense) return Mismatch("raw values", batch.dense.size(), dense);
    if (std::ssize(params) != param_floats()) {
      return Mismatch("parameters", params.size(), param_floats());
    }
    const int64_t wanted = batch.rows * std::ssize(graph_.outputs);
    if (std::ssize(scores) != wanted) return Mismatch("scores", scores.size(), wanted);
    return absl::OkStatus();
  }

  // Slots of one sequence are aligned.
  absl::Status CheckSequences(const Batch& batch) const {
    for (const SequenceAxis& axis : graph_.sequences) {
      const auto slot_of = [&](const SlotSpec& spec) -> const Slot& {
        return batch.tables[spec.table()].slots[spec.slot()];
      };
      const Slot& first = slot_of(axis.slots[0]);
      for (const SlotSpec& spec : axis.slots) {
        const Slot& slot = slot_of(spec);
        if (slot.owner == first.owner && slot.offsets == first.offsets) continue;
        return absl::InvalidArgumentError(
            absl::StrCat("network: sequences `", axis.slots[0].name(), "` and `", spec.name(),
                         "` are read side by side, but differ in length"));
      }
    }
    return absl::OkStatus();
  }

  static absl::Status CheckSlot(const Batch& batch, const SlotSpec& spec) {
    const std::vector<Slot>& slots = batch.tables[spec.table()].slots;
    if (spec.slot() >= std::ssize(slots)) {
      return Mismatch("slots of a table", slots.size(), spec.slot() + 1);
    }
    const Slot& slot = slots[spec.slot()];
    if ((slot.axis == Axis::kPosition) != spec.has_sequence()) {
      return absl::InvalidArgumentError(
          absl::StrCat("network: feature `", spec.name(), "` is ",
                       spec.has_sequence() ? "pooled, but the model reads its positions"
                                           : "a sequence, but the model reads it pooled"));
    }
    const bool by_request = slot.entries() == Axis::kRequest && !batch.request_of_row.empty();
    const int64_t entries = by_request ? batch.requests : batch.rows;
    if (std::ssize(slot.offsets) != entries + 1) {
      return Mismatch("offsets of a slot", slot.offsets.size(), entries + 1);
    }
    return absl::OkStatus();
  }

  absl::Status CheckTraining(const Batch& batch, std::span<const std::span<Real>> row_grads,
                             std::span<Real> param_grads) const {
    const int64_t labels = int64_t{batch.rows} * std::max(1, spec_.labels_size());
    if (std::ssize(batch.labels) != labels) return Mismatch("labels", batch.labels.size(), labels);
    if (!batch.weights.empty() && std::ssize(batch.weights) != batch.rows) {
      return Mismatch("weights", batch.weights.size(), batch.rows);
    }
    if (row_grads.size() != batch.tables.size()) {
      return Mismatch("tables of row gradients", row_grads.size(), batch.tables.size());
    }
    for (size_t t = 0; t < row_grads.size(); ++t) {
      const int64_t floats =
          std::ssize(batch.tables[t].ids) * spec_.table_width(static_cast<int>(t));
      if (std::ssize(row_grads[t]) != floats) {
        return Mismatch("floats of row gradients", row_grads[t].size(), floats);
      }
    }
    if (std::ssize(param_grads) != param_floats()) {
      return Mismatch("parameter gradients", param_grads.size(), param_floats());
    }
    return absl::OkStatus();
  }

  const GraphSpec spec_;
  const NetworkOptions options_;
  const Graph graph_;
  const std::vector<SlotSpec> pooled_;
  const MemoryPlan train_plan_, score_plan_;
  Op::Shares shares_ = Op::Shares::kNothing;  // The most that an op does.
  bool requests_apart_ = true;                // All that read the embedding take requests apart.
  std::vector<int> barriers_;                 // Coupled ops.
  double flops_forward_ = 0, flops_train_ = 0, element_flops_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Network>> Network::Create(const GraphSpec& spec,
                                                         const NetworkOptions& options) {
  if (options.tile < 1 || options.lanes < 1) {
    return absl::InvalidArgumentError("network: tile and lanes must be 1 or more");
  }
  ASSIGN_OR_RETURN(Graph graph, BuildGraph(spec));
  MergeCommonOps(&graph);
  RemoveDeadOps(&graph);
  if (options.fuse) FuseChains(&graph);
  return std::make_unique<NetworkImpl>(spec, options, std::move(graph));
}

}  // namespace starling
