// Runs a graph over one batch: tiles, lanes, barriers.
//
// Without coupled ops a tile goes forward and backward while its activations
// stay in the thread's cache, and a lane reuses one tile's memory. Coupled ops
// cut the graph into stages; then the whole batch's activations are kept and
// all tiles finish a stage before any starts the next.
#pragma once

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "dense_net/graph.h"
#include "dense_net/memory_plan.h"
#include "dense_net/workspace.h"

namespace starling {

// By sequence of the graph, as Step::positions. A request's sequence counts for each of its rows.
void CountPositions(const Graph& graph, const Batch& batch,
                    std::vector<std::vector<int64_t>>* positions);
// The same, and the batch's rows, by tiles of `tile` rows.
void MeasureBatch(const Batch& batch, std::span<const std::vector<int64_t>> positions, int tile,
                  JointBatch* joint);

class StepRun {
 public:
  // Everything outlives the run. `step` has batch, rows, params, seed, training,
  // tile, scores and share set, but for the joint batch where it is the share's own. A null pool
  // means the caller's thread alone. `barriers` are the coupled ops in order; none when scoring.
  StepRun(const Graph& graph, const MemoryPlan& plan, std::span<const int> barriers, int lanes,
          ThreadPool* pool, Step step, StepWorkspace* space);

  void Score();
  // Returns the share's part of the mean loss and fills param_grads (param_floats) with the
  // share's. The gradients that rows need are left in the workspace.
  double Train(Real* param_grads);
  // The part of the gradients that ops leave for the whole batch, if the loss is finite.
  void FinishGradients(Real* param_grads);
  // After a loss that is not finite: the first op, in running order, with such an output in
  // this share; the last op if none has.
  int FirstNonFinite();

 private:
  struct Tile {
    int index, lane;
  };
  // The tiles that are not yet taken.
  class LaneQueue {
   public:
    LaneQueue(int lanes, int tiles, StepWorkspace* space);
    int First();         // A tile to do; -1: none is left, or all lanes with one are busy.
    int Next(int done);  // Likewise, after `done`.

   private:
    int Take() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
    const int lanes_, tiles_;
    absl::Mutex mu_;
    std::vector<int>& next_ ABSL_GUARDED_BY(mu_);  // By lane: its next tile; busy lanes negative.
  };

  OpTile Bind(int op, const Tile& tile) const;
  Real* Place(int op, int64_t offset, const Tile& tile) const;
  Real* Grad(int op, const Tile& tile) const;
  Real* State(int op) const { return space_->state.data() + space_->state_offsets[op]; }
  Real* LaneGrads(int lane) const { return space_->lane_grads.data() + lane * lane_floats_; }
  const CoupledOp& Coupled(int op) const { return static_cast<const CoupledOp&>(*graph_.ops[op]); }

  // Arena 0 holds all tiles, one after the other, since tiles wait for each other.
  bool whole() const { return !barriers_.empty(); }
  void Measure();
  void Reserve();
  int Capacity(const Op& op) const;
  int64_t ArenaFloats() const {
    return plan_.width * capacity_ + plan_.position_width * position_capacity_;
  }
  void Prepare();
  void Forward(const Tile& tile, int begin, int end);   // Ops begin .. end - 1.
  void Backward(const Tile& tile, int begin, int end);  // Ops end - 1 .. begin.
  int ForwardToLastStage();                             // Returns its first op.
  void NoteNonFinite(int op, const OpTile& tile);
  void SumLanes(Real* param_grads);
  void GatherParts(int op);  // Of the tiles of all replicas.

  // Calls fn(i) for i in [0, n), on the device. The functor is passed by reference: nothing is
  // allocated.
  template <typename Fn>
  void Parallel(int n, const Fn& fn) {
    const auto on_device = [&](int i) {
      step_.device->Enter();
      fn(i);
    };
    if (pool_ == nullptr) {
      for (int i = 0; i < n; ++i) on_device(i);
    } else {
      pool_->ParallelFor(n, std::cref(on_device));
    }
  }
  // Calls fn(tile) for all tiles, those of a lane in order. Threads take a tile at a
  // time, of the lane that is behind: a thread that shares its core holds up no lane.
  template <typename Fn>
  void ForTiles(const Fn& fn) {
    LaneQueue queue(lanes_, step_.tiles, space_);
    const int threads = pool_ == nullptr ? 1 : std::min(pool_->threads(), lanes_);
    Parallel(threads, [&](int) {
      for (int t = queue.First(); t >= 0; t = queue.Next(t)) fn(Tile{t, t % lanes_});
    });
  }

  const Graph& graph_;
  const MemoryPlan& plan_;
  const std::span<const int> barriers_;
  ThreadPool* const pool_;
  StepWorkspace* const space_;
  Step step_;
  int lanes_ = 0;
  bool check_ = false;             // Look for outputs that are not finite.
  int64_t capacity_ = 0;           // Rows of a tile in an arena,
  int64_t position_capacity_ = 0;  // and positions, of any sequence.
  int64_t lane_floats_ = 0;
};

}  // namespace starling
