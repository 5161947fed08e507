// How the replicas of a step meet. Each calls the same methods in the same order, on
// a thread of its own; a call returns when every replica has what it promises.
//
// On CPUs replicas read each other's memory, and sums are formed in the order of the
// replicas whatever the threads' timing; on GPUs this is where NCCL would stand.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "dense_net/real.h"

namespace starling {

class Collective {
 public:
  virtual ~Collective() = default;

  // data (floats), in the replica's device memory, becomes the sum over all replicas.
  virtual void AllReduce(int replica, int64_t floats, Real* data) = 0;
  // Replica r brings elements [borders[r], borders[r + 1]) of `data`, `floats` each, in its
  // device's memory; all get all.
  virtual void AllGather(int replica, std::span<const int> borders, int64_t floats, Real* data) = 0;
  // Every replica's number, in their order, into `all`: of the host.
  virtual void Exchange(int replica, double mine, std::span<double> all) = 0;
  // A replica cannot go on: no call waits any more, and what they give is unspecified.
  virtual void Abort() = 0;
};

std::unique_ptr<Collective> NewCpuCollective(int replicas);

}  // namespace starling
