// StepPipeline: one step, in the order the data moves:
//
//   read ▸ prefetch ▸ pull ▸ copy ▸ compute ▸ push
//
// Reading runs ahead on the reader's own threads, and compiling on the pool's where there
// are some, as its side work; one thread asks the tiers for the rows of the next batches
// (Prefetch moves rows, it never reads values); the caller's thread pulls, computes on the
// pool, and pushes. Copying is for replicas on devices of their own (dense_net/replicas.h,
// copy_stage.h); the default device is the host, which computes with what was pulled where it
// stands.
//
// Staleness. The pull of step n is sent only when every push of a step before
// n - staleness is done: 0 means a pull sees every earlier push. A local client is
// done when its call returns, so a pull misses exactly the last `staleness` pushes and
// one seed gives one bit pattern; a remote one may be done sooner or later within it.
//
// Not thread-safe; one Run at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "base/thread_pool.h"
#include "dense_net/forward.h"
#include "ps/parameter_client.h"
#include "sample_io/batch_reader.h"

namespace starling {

struct PipelineOptions {
  int staleness = 0;
  double clip_norm = 0;  // Largest global norm of the dense gradient; 0 is no limit.
  uint64_t seed = 0;     // Of dropout, together with the step's number.
  // A replica on each; none: the network's own device.
  std::vector<std::shared_ptr<const Device>> devices;
};

// What a finished step tells. Spans are valid during the call.
struct StepReport {
  int64_t step = 0;  // Counts from 0 over the whole run.
  const Batch* batch = nullptr;
  std::span<const float> scores;  // (rows, outputs)
  double loss = 0;
  ReaderPosition next;  // Where reading goes on after this step.
};

// Seconds of the caller's thread, by what it did. base/stages.h has all threads'.
struct StageTimes {
  double wait_read = 0, pull = 0, copy = 0, compute = 0, push = 0;
};

// Rows of tables that were asked for and updated, each once a step.
struct StepCounts {
  int64_t ids_pulled = 0, ids_pushed = 0;
};

class StepPipeline {
 public:
  // All must outlive the pipeline. REQUIRES: network->UnsharedOp() is empty if there are devices.
  StepPipeline(const Network* network, ParameterClient* client, ThreadPool* pool,
               const PipelineOptions& options);
  ~StepPipeline();

  // Trains on the reader's batches, the first of which is step `first_step`,
  // until the pass ends (ok), `on_step` returns false (ok; steps already
  // pulled are finished first, so on_step may be called again), or something
  // fails. If `at_rest` is given, it is called when on_step returned false and
  // all those steps are pushed; true from it goes on where reading stands.
  // Whichever it is, all pushes are done when it returns, and on_step
  // was called, in order, for exactly the steps that were pushed. A batch
  // whose rows were all bad is no step.
  absl::Status Run(BatchReader* reader, int64_t first_step,
                   const std::function<double(int64_t step)>& lr_scale,
                   const std::function<bool(const StepReport&)>& on_step,
                   const std::function<bool()>& at_rest = nullptr);

  const StageTimes& times() const;
  const StepCounts& counts() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The ids of a batch, table by table, as the client takes them.
std::vector<TableKeys> KeysOf(const Batch& batch);

}  // namespace starling
