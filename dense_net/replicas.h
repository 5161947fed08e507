// Replicas: a step taken by several devices together, one replica of the network on each.
//
// Replica r trains on the r-th part of the batch, cut between tiles, so that the parts follow
// from options and data. Its part, the rows that this part holds and all
// parameters are copied into its device's memory (Copy*, to be called ahead of
// Train: that is what the two or more buffers are for). Each replica runs forward and
// backward there; where ops couple the batch (batch norm) replicas exchange what tiles left
// (collective.h), so that moments are the joint batch's. Gradients of parameters are
// all-reduced; those of rows are copied back and summed by id, in the order of replicas.
//
// The step equals that of one device with the joint batch but for the rounding of
// sums: what one device adds up in one chain, replicas add up in parts. Losses that
// compare rows of the whole batch cannot be parted (Network::UnsharedOp).
//
// Thread safety: one Train at a time; copies into other buffers may go on beside it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/thread_pool.h"
#include "dense_net/device.h"
#include "dense_net/forward.h"

namespace starling {

class Replicas {
 public:
  // A step's input, on the devices. May be used again.
  class Buffer {
   public:
    virtual ~Buffer() = default;
  };

  // One for each device; `threads` are divided among them, at least one each.
  // REQUIRES: network->UnsharedOp() is empty if there are several. All must outlive it.
  static std::unique_ptr<Replicas> Create(const Network* network,
                                          std::vector<const Device*> devices, int threads);
  virtual ~Replicas() = default;

  virtual std::unique_ptr<Buffer> NewBuffer() const = 0;
  // In this order: the batch; its rows and the parameters, as Network::Train has them.
  virtual absl::Status CopyBatch(const Batch& batch, Buffer* buffer) const = 0;
  virtual absl::Status CopyRows(std::span<const std::span<const Real>> rows,
                                std::span<const Real> params, Buffer* buffer) const = 0;

  // As Network::Train with the batch that was copied. `pool` is for what follows the replicas.
  virtual absl::StatusOr<double> Train(Buffer* buffer, uint64_t step_seed, ThreadPool* pool,
                                       std::span<Real> scores,
                                       std::span<const std::span<Real>> row_grads,
                                       std::span<Real> param_grads) = 0;
};

}  // namespace starling
