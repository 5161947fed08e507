// bench store: what a snapshot costs those who train meanwhile.
#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/status.h"
#include "tools/bench.h"
#include "tools/bench_store.h"

namespace starling {
namespace {

double CpuSeconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + now.tv_nsec * 1e-9;
}

constexpr int64_t kPace = 64 << 20;  // Bytes a second: 20 M rows in some 47 s.

// Two threads that look up and apply without a pause. A call counts where it
// ended; its length counts in every phase it touched.
class Load {
 public:
  enum Phase { kIdle, kBefore, kDuring, kPhases };

  Load(const StoreBench& bench, EmbeddingTable* table)
      : table_(table), batches_(DrawBatches(bench, Draw::kZipf, bench.rows)) {
    for (int t = 0; t < kStoreThreads; ++t) threads_.emplace_back([this, t] { Run(t); });
  }
  ~Load() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

  struct Seen {
    int64_t ids = 0;
    double call_max = 0;  // Seconds.
    double at = 0;        // When the longest ended, in seconds of the phase.
  };
  void Begin(Phase phase) {
    for (PerThread& mine : seen_) {
      mine.ids[phase] = 0;
      mine.call_ns_max[phase] = 0;
    }
    began_ = Seconds();
    phase_ = phase;
  }
  Seen End() {
    Phase phase = phase_.exchange(kIdle);
    Seen all;
    for (PerThread& mine : seen_) {
      all.ids += mine.ids[phase];
      // A call that began in the phase may not have ended yet: wait for it.
      for (int64_t calls = mine.calls; !failed_ && mine.calls == calls;) {
        absl::SleepFor(absl::Milliseconds(1));
      }
      const double call = static_cast<double>(mine.call_ns_max[phase]) * 1e-9;
      if (call > all.call_max) all.at = mine.longest_at[phase] - began_;
      all.call_max = std::max(all.call_max, call);
    }
    return all;
  }
  // CPU time of the process so far that was not the load's.
  double CpuSecondsOfOthers() {
    double all = CpuSeconds(CLOCK_PROCESS_CPUTIME_ID);
    for (std::thread& thread : threads_) {
      clockid_t clock;
      if (pthread_getcpuclockid(thread.native_handle(), &clock) == 0) all -= CpuSeconds(clock);
    }
    return all;
  }
  absl::Status status() const {
    return failed_ ? absl::InternalError("a store call failed under load") : absl::OkStatus();
  }

 private:
  struct alignas(64) PerThread {
    std::atomic<int64_t> ids[kPhases] = {}, call_ns_max[kPhases] = {}, calls{0};
    std::atomic<double> longest_at[kPhases] = {};
  };

  absl::Status Timed(PerThread* mine, int64_t ids, const std::function<absl::Status()>& call) {
    Phase began = phase_;
    double start = Seconds();
    absl::Status status = call();
    const int64_t ns = (Seconds() - start) * 1e9;
    Phase ended = phase_;
    for (Phase p : {began, ended}) {
      if (ns <= mine->call_ns_max[p]) continue;
      mine->call_ns_max[p] = ns;
      mine->longest_at[p] = Seconds();
    }
    mine->ids[ended] += ids;
    ++mine->calls;
    return status;
  }

  void Run(int t) {
    const size_t floats = batches_[t][0].ids.size() * table_->width();
    std::vector<float> weights(floats), grads(floats, 0.001f);
    for (size_t b = 0; !stop_ && !failed_; b = (b + 1) % batches_[t].size()) {
      const std::vector<uint64_t>& ids = batches_[t][b].ids;
      // An id counts once for the two calls it takes.
      if (!Timed(&seen_[t], ids.size(),
                 [&] { return table_->LookupOrCreate(ids, batches_[t][b].counts, {}, weights); })
               .ok() ||
          !Timed(&seen_[t], 0, [&] { return table_->ApplyGradients(ids, grads, 1); }).ok()) {
        failed_ = true;
      }
    }
  }

  EmbeddingTable* const table_;
  const std::vector<std::vector<IdBatch>> batches_;  // [thread][batch]
  std::atomic<Phase> phase_{kIdle};
  double began_ = 0;  // The phase, in Seconds().
  std::atomic<bool> stop_{false}, failed_{false};
  PerThread seen_[kStoreThreads];
  std::vector<std::thread> threads_;
};

}  // namespace

absl::Status BenchStoreSnapshot(const StoreBench& bench, EmbeddingTable* table) {
  const std::string path = JoinPath(bench.dir, "snapshot");
  const double window = bench.quick ? 0.3 : 5;
  Load load(bench, table);
  absl::SleepFor(absl::Seconds(window / 2));
  BenchResult rate{"store.snapshot",
                   absl::StrCat("zipf ", RowsText(bench.rows),
                                " x 16, adagrad, lookup + apply by 2 "
                                "threads while a third takes a snapshot"),
                   "ids/s",
                   "the same without a snapshot",
                   {},
                   {},
                   1};
  std::vector<double> seconds, pause, at, call_before, call_during, bound;
  // One of a large table takes most of a minute.
  const int alternations = std::min(bench.alternations, bench.rows > 10'000'000 ? 3 : 7);
  for (int a = 0; a < alternations; ++a) {
    double start = Seconds();
    load.Begin(Load::kBefore);
    absl::SleepFor(absl::Seconds(window));
    double took = Seconds() - start;
    Load::Seen before = load.End();
    rate.reference_values.push_back(before.ids / took);

    start = Seconds();
    double cpu = load.CpuSecondsOfOthers();
    load.Begin(Load::kDuring);
    ASSIGN_OR_RETURN(auto snapshot, table->StartSnapshot(path, {.bytes_per_second_max = kPace}));
    RETURN_IF_ERROR(snapshot->Wait().status());
    took = Seconds() - start;
    cpu = load.CpuSecondsOfOthers() - cpu;
    Load::Seen during = load.End();
    RETURN_IF_ERROR(load.status());
    rate.values.push_back(during.ids / took);
    seconds.push_back(took);
    call_before.push_back(before.call_max * 1e3);
    call_during.push_back(during.call_max * 1e3);
    pause.push_back((during.call_max - before.call_max) * 1e3);
    at.push_back(during.at);
    bound.push_back(1 - cpu / took / std::max(1u, std::thread::hardware_concurrency()));
  }
  // The cores that the snapshot's threads use, the load cannot.
  rate.ratio_bound = Median(bound);
  Report(rate);
  std::error_code error;
  const double bytes = static_cast<double>(std::filesystem::file_size(path, error));
  const auto worst = std::max_element(pause.begin(), pause.end());
  ReportFigures("store.snapshot.calls", rate.what,
                {{"snapshot_s", Median(seconds)},
                 {"snapshot_bytes", error ? 0 : bytes},
                 {"longest_call_ms_before", Median(call_before)},
                 {"longest_call_ms_during", Median(call_during)},
                 {"longest_call_ms_more", Median(pause)},
                 {"longest_call_ms_more_worst", *worst},
                 {"worst_at_s", at[worst - pause.begin()]},
                 {"target_ms_more", 50}});
  return RemoveAll(path);
}

}  // namespace starling
