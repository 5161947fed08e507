// What the threads of this process do: seconds of work and of waiting by stage of
// a training step, summed over threads; and, while a trace is taken, every span of
// it by thread, as a file for Perfetto or chrome://tracing.
//
// Work is the processor's time: a thread that is not given a core, or waits for a disk
// inside a span of work, does none. A span is a scope on one thread. What a span inside it takes
// counts for that one alone. ThreadPool opens spans of the caller's stage on the threads that help.
// Thread safety: all of it, any thread. A span costs four readings of clocks.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace starling {

enum class Stage {
  kRead,
  kCompile,
  kPrefetch,
  kPull,
  kCopy,  // To devices and back, where there are some.
  kCompute,
  kPush,
  kCheckpoint,
  kEval
};
inline constexpr int kStages = 9;
const char* StageName(Stage stage);

class StageSpan {
 public:
  // `step` goes into the trace; -1: none.
  explicit StageSpan(Stage stage, int64_t step = -1) : StageSpan(stage, step, false) {}
  ~StageSpan();
  StageSpan(const StageSpan&) = delete;
  StageSpan& operator=(const StageSpan&) = delete;

  // That of the calling thread's innermost span, if it is one of work.
  static std::optional<Stage> Current();

 protected:
  StageSpan(Stage stage, int64_t step, bool wait);

 private:
  const Stage stage_;
  const bool wait_;
  const int64_t step_;
  StageSpan* const outer_;
  const int64_t start_, cpu_start_;
  int64_t inner_ns_ = 0, inner_cpu_ns_ = 0;  // Of the spans inside.
};

// The stage's thread has nothing to do: for want of input, of room, or of others.
class StageWait : public StageSpan {
 public:
  explicit StageWait(Stage stage) : StageSpan(stage, -1, true) {}
};

// A batch was taken from the queue before `stage`, which held `depth` of at most `most`.
void NoteQueue(Stage stage, int depth, int most);

struct StageUse {
  double busy = 0, wait = 0;  // Seconds: of the processor, of the clock.
  int64_t taken = 0,
          depths = 0;  // Batches from the queue before it, and the sum of its depths then.
  int depth_most = 0;  // 0: it has none.
  StageUse& operator+=(const StageUse& more) {
    busy += more.busy;
    wait += more.wait;
    taken += more.taken;
    depths += more.depths;
    return *this;
  }
  double depth() const {
    return taken == 0 ? 0 : static_cast<double>(depths) / static_cast<double>(taken);
  }
};
using StageUses = std::array<StageUse, kStages>;
StageUses ReadStages();  // Since the process began.
StageUses UseBetween(const StageUses& before, const StageUses& after);

// Prometheus has the same, as starling_stage_seconds_total and starling_stage_queue_depth.
void ExportStages();

// The calling thread's lane in the trace, if it has no span in one yet.
void NameThread(const std::string& name);
// From now on spans are kept, up to a bound; then they are counted as left out.
void StartTrace();
// Writes them and stops. The number left out, if any, is the trace's last event.
absl::Status WriteTrace(const std::string& path);

}  // namespace starling
