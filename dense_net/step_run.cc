#include "dense_net/step_run.h"

#include <cmath>
#include <functional>

#include "dense_net/collective.h"

namespace starling {
namespace {

int64_t RoundUp(int64_t n) { return (n + 15) / 16 * 16; }

}  // namespace

StepRun::StepRun(const Graph& graph, const MemoryPlan& plan, std::span<const int> barriers,
                 int lanes, ThreadPool* pool, Step step, StepWorkspace* space)
    : graph_(graph), plan_(plan), barriers_(barriers), pool_(pool), space_(space), step_(step) {
  step_.tiles = static_cast<int>((int64_t{step.batch->rows} + step.tile - 1) / step.tile);
  lanes_ = std::max(1, std::min(lanes, step_.tiles));
  capacity_ = RoundUp(step.tile);
  lane_floats_ = RoundUp(graph.param_floats);
  Measure();
  Reserve();
}

StepRun::LaneQueue::LaneQueue(int lanes, int tiles, StepWorkspace* space)
    : lanes_(lanes), tiles_(tiles), next_(space->lane_next) {
  next_.resize(lanes);
  for (int lane = 0; lane < lanes; ++lane) next_[lane] = lane;
}

int StepRun::LaneQueue::Take() {
  int best = -1;
  for (int lane = 0; lane < lanes_; ++lane) {
    const bool free = next_[lane] >= 0 && next_[lane] < tiles_;
    if (free && (best < 0 || next_[lane] < next_[best])) best = lane;
  }
  if (best < 0) return -1;
  const int tile = next_[best];
  next_[best] = -1;
  return tile;
}

int StepRun::LaneQueue::First() {
  absl::MutexLock lock(&mu_);
  return Take();
}

int StepRun::LaneQueue::Next(int done) {
  absl::MutexLock lock(&mu_);
  next_[done % lanes_] = done + lanes_;
  return Take();
}

void CountPositions(const Graph& graph, const Batch& batch,
                    std::vector<std::vector<int64_t>>* positions) {
  positions->resize(graph.sequences.size());
  for (size_t s = 0; s < graph.sequences.size(); ++s) {
    const SlotSpec& spec = graph.sequences[s].slots[0];
    const Slot& slot = batch.tables[spec.table()].slots[spec.slot()];
    const bool by_request = slot.entries() == Axis::kRequest && !batch.request_of_row.empty();
    std::vector<int64_t>& before = (*positions)[s];
    before.assign(1, 0);
    for (uint32_t r = 0; r < batch.rows; ++r) {
      const uint32_t entry = by_request ? batch.request_of_row[r] : r;
      before.push_back(before.back() + slot.offsets[entry + 1] - slot.offsets[entry]);
    }
  }
}

void MeasureBatch(const Batch& batch, std::span<const std::vector<int64_t>> positions, int tile,
                  JointBatch* joint) {
  joint->rows = batch.rows;
  joint->tile = tile;
  joint->tiles = static_cast<int>((joint->rows + tile - 1) / tile);
  joint->before.resize(positions.size());
  joint->pairs.assign(positions.size(), 0);
  for (size_t s = 0; s < positions.size(); ++s) {
    joint->before[s].clear();
    for (int t = 0; t <= joint->tiles; ++t) {
      joint->before[s].push_back(positions[s][joint->Before(-1, t)]);
    }
    for (int64_t r = 0; r < joint->rows; ++r) {
      joint->pairs[s] += std::max<int64_t>(0, positions[s][r + 1] - positions[s][r] - 1);
    }
  }
}

void StepRun::Measure() {
  CountPositions(graph_, *step_.batch, &space_->positions);
  step_.positions = space_->positions;
  if (step_.share.joint == nullptr) {
    MeasureBatch(*step_.batch, step_.positions, step_.tile, &space_->joint);
    step_.share.joint = &space_->joint;
  }
  for (size_t s = 0; s < graph_.sequences.size(); ++s) {
    for (int t = 0; t < step_.tiles; ++t) {
      position_capacity_ =
          std::max(position_capacity_, RoundUp(step_.TileRows(static_cast<int>(s), t)));
    }
  }
}

int StepRun::Capacity(const Op& op) const {
  bool positions = op.sequence() >= 0;
  for (const Value& input : op.inputs()) positions = positions || input.sequence >= 0;
  return positions ? std::max(step_.tile, static_cast<int>(position_capacity_)) : step_.tile;
}

void StepRun::Reserve() {
  StepWorkspace& space = *space_;
  if (static_cast<int>(space.arenas.size()) < lanes_) {
    space.arenas.resize(lanes_);
    space.scratch.resize(lanes_);
  }
  int64_t scratch = 0, state = 0;
  space.state_offsets.clear();
  for (const auto& op : graph_.ops) {
    scratch = std::max(scratch, op->ScratchFloats(Capacity(*op)));
    space.state_offsets.push_back(state);
    state += RoundUp(op->StateFloats(step_));
  }
  space.state.Reserve(*step_.device, state);
  for (int lane = 0; lane < lanes_; ++lane) {
    const int tiles = !whole() ? 1 : lane == 0 ? step_.tiles : 0;
    space.arenas[lane].Reserve(*step_.device, tiles * ArenaFloats());
    space.scratch[lane].Reserve(*step_.device, scratch);
  }
  if (!step_.training) return;
  space.lane_grads.Reserve(*step_.device, lanes_ * lane_floats_);
  space.tile_loss.resize(step_.tiles);
  step_.tile_loss = space.tile_loss.data();
  const int64_t rows = int64_t{step_.batch->rows} + 1;
  if (graph_.embedding >= 0) {
    const int width = graph_.ops[graph_.embedding]->width();
    space.shared.gradient = space.embedding_grad.Reserve(*step_.device, rows * width);
    space.shared.stride = width;
  }
  if (graph_.linear >= 0) space.linear_grad.Reserve(*step_.device, rows);
  space.sequence_grads.resize(graph_.sequences.size());
  for (size_t s = 0; s < graph_.sequences.size(); ++s) {
    const int64_t positions = step_.Rows(static_cast<int>(s)) + 1;
    space.sequence_grads[s].Reserve(*step_.device,
                                    positions * graph_.ops[graph_.sequences[s].input]->width());
  }
}

Real* StepRun::Place(int op, int64_t offset, const Tile& tile) const {
  Real* arena = space_->arenas[whole() ? 0 : tile.lane].data();
  if (whole()) arena += tile.index * ArenaFloats();
  if (graph_.ops[op]->sequence() < 0) return arena + offset * capacity_;
  return arena + plan_.width * capacity_ + offset * position_capacity_;
}

Real* StepRun::Grad(int op, const Tile& tile) const {
  if (!plan_.wants_grad[op]) return nullptr;
  if (!graph_.ops[op]->keeps_gradient()) return Place(op, plan_.grad[op], tile);
  const int sequence = graph_.ops[op]->sequence();
  const RealBuffer& kept = sequence >= 0            ? space_->sequence_grads[sequence]
                           : op == graph_.embedding ? space_->embedding_grad
                                                    : space_->linear_grad;
  const int64_t first = step_.Before(sequence, int64_t{tile.index} * step_.tile);
  return kept.data() + first * graph_.ops[op]->width();
}

OpTile StepRun::Bind(int op, const Tile& tile) const {
  OpTile bound;
  bound.step = &step_;
  bound.index = tile.index;
  bound.batch_first = int64_t{tile.index} * step_.tile;
  bound.batch_rows =
      static_cast<int>(std::min<int64_t>(step_.tile, step_.batch->rows - bound.batch_first));
  const int sequence = graph_.ops[op]->sequence();
  bound.first = step_.Before(sequence, bound.batch_first);
  bound.rows = static_cast<int>(step_.TileRows(sequence, tile.index));
  const std::vector<Value>& inputs = graph_.ops[op]->inputs();
  for (size_t v = 0; v < inputs.size(); ++v) {
    bound.in[v] = Place(inputs[v].id, plan_.value[inputs[v].id], tile);
  }
  bound.out = Place(op, plan_.value[op], tile);
  bound.kept = Place(op, plan_.value[op] + graph_.ops[op]->width(), tile);
  bound.state = State(op);
  bound.scratch = space_->scratch[tile.lane].data();
  if (!step_.training) return bound;
  for (size_t v = 0; v < inputs.size(); ++v) bound.in_grad[v] = Grad(inputs[v].id, tile);
  bound.in_add = plan_.in_add[op];
  bound.out_grad = Grad(op, tile);
  bound.param_grads = LaneGrads(tile.lane);
  return bound;
}

void StepRun::Prepare() {
  Parallel(static_cast<int>(graph_.ops.size()),
           [&](int op) { graph_.ops[op]->Prepare(step_, State(op)); });
  for (size_t op = 0; op < graph_.ops.size(); ++op) {
    Parallel(graph_.ops[op]->Parts(step_), [&](int part) {
      graph_.ops[op]->BeforeTiles(step_, part, State(static_cast<int>(op)));
    });
  }
  if (!step_.training) return;
  std::fill_n(step_.tile_loss, step_.tiles, 0.0);
  Parallel(lanes_,
           [&](int lane) { step_.device->kernels().fill(lane_floats_, 0, LaneGrads(lane)); });
}

void StepRun::FinishGradients(Real* param_grads) {
  for (size_t op = 0; op < graph_.ops.size(); ++op) {
    Parallel(graph_.ops[op]->Parts(step_), [&](int part) {
      graph_.ops[op]->AfterTiles(step_, part, State(static_cast<int>(op)), param_grads);
    });
  }
}

void StepRun::Forward(const Tile& tile, int begin, int end) {
  for (int op = begin; op < end; ++op) {
    const OpTile bound = Bind(op, tile);
    graph_.ops[op]->Forward(bound);
    if (check_) NoteNonFinite(op, bound);
  }
}

void StepRun::Backward(const Tile& tile, int begin, int end) {
  for (int op = end - 1; op >= begin; --op) graph_.ops[op]->Backward(Bind(op, tile));
}

void StepRun::Score() {
  Prepare();
  ForTiles([&](const Tile& tile) { Forward(tile, 0, static_cast<int>(graph_.ops.size())); });
}

// Stage s ends before barrier s; the op of a barrier opens the next stage.
int StepRun::ForwardToLastStage() {
  int begin = 0;
  for (int op : barriers_) {
    ForTiles([&](const Tile& tile) {
      Forward(tile, begin, op);
      Coupled(op).ReduceForward(Bind(op, tile));
    });
    GatherParts(op);
    Coupled(op).CombineForward(step_, State(op), LaneGrads(0));
    begin = op;
  }
  return begin;
}

double StepRun::Train(Real* param_grads) {
  Prepare();
  const int begin = ForwardToLastStage();
  const int end = static_cast<int>(graph_.ops.size());
  const bool coupled = !barriers_.empty();
  ForTiles([&](const Tile& tile) {
    Forward(tile, begin, end);
    Backward(tile, coupled ? begin + 1 : 0, end);
    if (coupled) Coupled(begin).ReduceBackward(Bind(begin, tile));
  });
  for (int b = static_cast<int>(barriers_.size()) - 1; b >= 0; --b) {
    const int op = barriers_[b];
    GatherParts(op);
    Coupled(op).CombineBackward(step_, State(op), LaneGrads(0));
    ForTiles([&](const Tile& tile) {
      Backward(tile, b > 0 ? barriers_[b - 1] + 1 : 0, op + 1);
      if (b > 0) Coupled(barriers_[b - 1]).ReduceBackward(Bind(barriers_[b - 1], tile));
    });
  }
  SumLanes(param_grads);
  double loss = 0;
  for (int t = 0; t < step_.tiles; ++t) loss += step_.tile_loss[t];
  return loss / static_cast<double>(step_.share.joint->rows);
}

void StepRun::GatherParts(int op) {
  if (step_.share.collective == nullptr) return;
  step_.share.collective->AllGather(step_.share.replica, step_.share.first_tiles,
                                    Coupled(op).JointPartFloats(),
                                    Coupled(op).JointParts(State(op)));
}

void StepRun::SumLanes(Real* param_grads) {
  constexpr int64_t kChunk = 8192;
  const int64_t floats = graph_.param_floats;
  Parallel(static_cast<int>((floats + kChunk - 1) / kChunk), [&](int chunk) {
    const int64_t begin = chunk * kChunk, n = std::min(kChunk, floats - begin);
    for (int lane = 0; lane < lanes_; ++lane) {
      step_.device->kernels().copy(n, LaneGrads(lane) + begin, param_grads + begin, lane > 0);
    }
  });
}

void StepRun::NoteNonFinite(int op, const OpTile& tile) {
  int& bad = space_->tile_bad_op[tile.index];
  const int64_t n = static_cast<int64_t>(tile.rows) * graph_.ops[op]->width();
  for (int64_t i = 0; i < n && op < bad; ++i) {
    if (!std::isfinite(tile.out[i])) bad = op;
  }
}

int StepRun::FirstNonFinite() {
  const int end = static_cast<int>(graph_.ops.size());
  space_->tile_bad_op.assign(std::max(1, step_.tiles), end - 1);
  check_ = true;
  space_->shared.JoinRequests();  // Every column is looked at.
  const int begin = ForwardToLastStage();
  ForTiles([&](const Tile& tile) { Forward(tile, begin, end); });
  check_ = false;
  return *std::min_element(space_->tile_bad_op.begin(), space_->tile_bad_op.end());
}

}  // namespace starling
