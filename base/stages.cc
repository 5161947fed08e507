#include "base/stages.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/metrics.h"

namespace starling {
namespace {

constexpr int64_t kEventsMax = 4'000'000;

struct Totals {
  std::atomic<int64_t> busy_ns{0}, wait_ns{0}, depth{0}, taken{0};
  std::atomic<int> depth_most{0};
};
std::array<Totals, kStages> totals;

struct Event {
  Stage stage;
  bool wait;
  int64_t start, end, step;
};
struct Lane {
  int number;
  std::string name;
  absl::Mutex mu;
  std::vector<Event> events ABSL_GUARDED_BY(mu);
};

std::atomic<bool> tracing{false};
std::atomic<int64_t> events{0}, left_out{0};

// Lanes are made by threads that have something for a trace, and outlive them.
thread_local std::string thread_name;
struct Lanes {
  absl::Mutex mu;
  std::vector<std::shared_ptr<Lane>> all ABSL_GUARDED_BY(mu);
};
Lanes& AllLanes() {
  static Lanes* const lanes = new Lanes;
  return *lanes;
}
Lane& OwnLane() {
  thread_local const std::shared_ptr<Lane> lane = [] {
    auto made = std::make_shared<Lane>();
    absl::MutexLock lock(&AllLanes().mu);
    made->number = static_cast<int>(AllLanes().all.size()) + 1;
    made->name = thread_name;
    AllLanes().all.push_back(made);
    return made;
  }();
  return *lane;
}

thread_local StageSpan* innermost = nullptr;

int64_t ThreadCpuNanos() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

Totals& Of(Stage stage) { return totals[static_cast<int>(stage)]; }

void Keep(const Event& event) {
  if (events.fetch_add(1, std::memory_order_relaxed) >= kEventsMax) {
    left_out.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  Lane& lane = OwnLane();
  absl::MutexLock lock(&lane.mu);
  lane.events.push_back(event);
}

}  // namespace

const char* StageName(Stage stage) {
  constexpr const char* kNames[kStages] = {"read",    "compile", "prefetch",   "pull", "copy",
                                           "compute", "push",    "checkpoint", "eval"};
  return kNames[static_cast<int>(stage)];
}

StageSpan::StageSpan(Stage stage, int64_t step, bool wait)
    : stage_(stage),
      wait_(wait),
      step_(step),
      outer_(innermost),
      start_(absl::GetCurrentTimeNanos()),
      cpu_start_(ThreadCpuNanos()) {
  innermost = this;
}

StageSpan::~StageSpan() {
  const int64_t end = absl::GetCurrentTimeNanos(), took = end - start_;
  const int64_t cpu = ThreadCpuNanos() - cpu_start_;
  innermost = outer_;
  if (outer_ != nullptr) {
    outer_->inner_ns_ += took;
    outer_->inner_cpu_ns_ += cpu;
  }
  if (wait_) {
    Of(stage_).wait_ns.fetch_add(took - inner_ns_, std::memory_order_relaxed);
  } else {
    Of(stage_).busy_ns.fetch_add(cpu - inner_cpu_ns_, std::memory_order_relaxed);
  }
  if (tracing.load(std::memory_order_relaxed)) Keep({stage_, wait_, start_, end, step_});
}

std::optional<Stage> StageSpan::Current() {
  if (innermost == nullptr || innermost->wait_) return std::nullopt;
  return innermost->stage_;
}

void NoteQueue(Stage stage, int depth, int most) {
  Totals& to = Of(stage);
  to.depth.fetch_add(depth, std::memory_order_relaxed);
  to.taken.fetch_add(1, std::memory_order_relaxed);
  to.depth_most.store(most, std::memory_order_relaxed);
}

StageUses ReadStages() {
  StageUses uses;
  for (int s = 0; s < kStages; ++s) {
    uses[s].busy = static_cast<double>(totals[s].busy_ns.load()) * 1e-9;
    uses[s].wait = static_cast<double>(totals[s].wait_ns.load()) * 1e-9;
    uses[s].depths = totals[s].depth.load();
    uses[s].taken = totals[s].taken.load();
    uses[s].depth_most = totals[s].depth_most.load();
  }
  return uses;
}

StageUses UseBetween(const StageUses& before, const StageUses& after) {
  StageUses uses = after;
  for (int s = 0; s < kStages; ++s) {
    uses[s].busy -= before[s].busy;
    uses[s].wait -= before[s].wait;
    uses[s].depths -= before[s].depths;
    uses[s].taken -= before[s].taken;
  }
  return uses;
}

void ExportStages() {
  static const MetricsRefresher* const refresher = new MetricsRefresher([] {
    static StageUses shown;  // One refresh runs at a time.
    const StageUses now = ReadStages(), more = UseBetween(shown, now);
    for (int s = 0; s < kStages; ++s) {
      const std::string stage = StageName(static_cast<Stage>(s));
      const auto seconds = [&](const char* kind, double add) {
        GetCounter("starling_stage_seconds_total",
                   "Seconds that threads worked in a stage of training, or waited in it",
                   {{"stage", stage}, {"kind", kind}})
            .Add(add);
      };
      seconds("busy", more[s].busy);
      seconds("wait", more[s].wait);
      if (more[s].depth_most == 0) continue;
      GetGauge("starling_stage_queue_depth",
               "Batches in the queue before a stage, mean since the last reading",
               {{"stage", stage}})
          .Set(more[s].depth());
    }
    shown = now;
  });
  (void)refresher;
}

void NameThread(const std::string& name) { thread_name = name; }

void StartTrace() {
  events = left_out = 0;
  tracing = true;
}

absl::Status WriteTrace(const std::string& path) {
  tracing = false;
  std::string json = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
  int64_t first = 0, last = 0;
  std::vector<std::shared_ptr<Lane>> lanes;
  {
    absl::MutexLock lock(&AllLanes().mu);
    lanes = AllLanes().all;
  }
  for (const std::shared_ptr<Lane>& lane : lanes) {
    absl::MutexLock lock(&lane->mu);
    for (const Event& e : lane->events) {
      if (first == 0 || e.start < first) first = e.start;
      last = std::max(last, e.end);
    }
  }
  for (const std::shared_ptr<Lane>& lane : lanes) {
    absl::MutexLock lock(&lane->mu);
    if (lane->events.empty()) continue;
    const std::string name =
        lane->name.empty() ? absl::StrFormat("thread %d", lane->number) : lane->name;
    absl::StrAppendFormat(&json,
                          R"({"ph": "M", "name": "thread_name", "pid": 1, "tid": %d, )"
                          R"("args": {"name": "%s"}},)"
                          "\n",
                          lane->number, name);
    for (const Event& e : lane->events) {
      absl::StrAppendFormat(
          &json, R"({"ph": "X", "name": "%s%s", "pid": 1, "tid": %d, "ts": %.3f, "dur": %.3f)",
          e.wait ? "wait: " : "", StageName(e.stage), lane->number,
          static_cast<double>(e.start - first) * 1e-3, static_cast<double>(e.end - e.start) * 1e-3);
      if (e.step >= 0) absl::StrAppendFormat(&json, R"(, "args": {"step": %d})", e.step);
      json += "},\n";
    }
    lane->events.clear();
  }
  absl::StrAppendFormat(&json,
                        R"({"ph": "i", "s": "g", "name": "end", "pid": 1, "tid": 0, "ts": %.3f, )"
                        R"("args": {"left_out": %d}})"
                        "\n]}\n",
                        static_cast<double>(last - first) * 1e-3, left_out.load());
  return WriteFileAtomically(path, json);
}

}  // namespace starling
