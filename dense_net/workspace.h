// The memory of a step. It grows to the largest batch seen and is then reused,
// so that a warm step allocates nothing. Not thread safe: one step at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dense_net/batch_arrays.h"
#include "dense_net/device.h"
#include "dense_net/forward.h"
#include "dense_net/share.h"
#include "dense_net/shared_slots.h"

namespace starling {

struct FreeOnDevice {
  const Device* device = nullptr;
  void operator()(Real* memory) const { device->Free(memory); }
};

// Memory of a device, with unspecified content.
class RealBuffer {
 public:
  Real* Reserve(const Device& device, int64_t floats) {
    if (floats > size_) {
      size_ = floats + floats / 8;  // The next batch may be a little larger.
      data_ = {static_cast<Real*>(device.Allocate(size_ * sizeof(Real))), FreeOnDevice{&device}};
    }
    return data_.get();
  }
  Real* data() const { return data_.get(); }

 private:
  std::unique_ptr<Real[], FreeOnDevice> data_;
  int64_t size_ = 0;
};

struct StepWorkspace : Workspace {
  BatchArrays arrays;                  // Of a batch that is no share,
  JointBatch joint;                    // and the same as its own whole.
  std::vector<RealBuffer> arenas;      // One a lane; one for all if ops couple the batch.
  std::vector<RealBuffer> scratch;     // One a lane.
  RealBuffer lane_grads;               // (lanes, param_floats)
  RealBuffer state;                    // The ops', one after the other.
  std::vector<int64_t> state_offsets;  // By op.
  // Gradients that table rows need, (batch rows + 1, width); the last row is 0.
  RealBuffer embedding_grad, linear_grad, request_linear_grad;
  std::vector<RealBuffer> sequence_grads;       // By sequence, (positions + 1, width); likewise.
  std::vector<std::vector<int64_t>> positions;  // By sequence; see Step::positions.
  std::vector<std::vector<uint32_t>>
      position_of_entry;  // By sequence of requests: the first row's.
  SharedSlots shared;
  std::vector<int> lane_next;  // See StepRun::LaneQueue.
  std::vector<double> tile_loss;
  std::vector<int> tile_bad_op;  // First op with a non-finite output, if looked for.
  std::vector<uint32_t> row_of_request;
  std::vector<ColumnRange> request_columns;  // Whose gradients stand in all rows of a request.
  std::vector<GradientRoute> routes;         // By table and slot.
  std::vector<int> route_offsets;            // By table.
};

}  // namespace starling
