#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/stages.h"

namespace starling {
namespace {

// One ParallelFor under way. Threads take the next index until none is left.
struct Loop {
  const std::function<void(int)>* fn;
  int n;
  std::optional<Stage> stage;  // The caller's.
  std::atomic<int> next{0};
  std::atomic<int> done{0};
  absl::Mutex mu;

  // `in`: the stage whose work this is, if the calling thread does not say it by a span.
  void Work(std::optional<Stage> in) {
    int i, finished = 0;
    {
      std::optional<StageSpan> span;  // Counted before the caller may go on.
      if (in.has_value()) span.emplace(*in);
      while ((i = next.fetch_add(1, std::memory_order_relaxed)) < n) {
        (*fn)(i);
        ++finished;
      }
    }
    if (finished == 0) return;
    absl::MutexLock lock(&mu);
    done.fetch_add(finished);
  }
  bool Finished() const { return done.load() == n; }
};

int Cores() { return std::max(1u, std::thread::hardware_concurrency()); }
int Resolve(int threads) { return threads > 0 ? threads : Cores(); }

// Waits for a while, in which another thread can neither be put to sleep nor woken: on a virtual
// machine that takes some 50 us, as long as many a loop.
template <typename Ready>
void SpinUntil(const Ready& ready) {
  constexpr int64_t kNanoseconds = 50'000;
  const int64_t end = absl::GetCurrentTimeNanos() + kNanoseconds;
  while (!ready() && absl::GetCurrentTimeNanos() < end) {
    for (int i = 0; i < 8; ++i) __builtin_ia32_pause();
  }
}

}  // namespace

struct ThreadPool::Impl {
  absl::Mutex mu;
  std::deque<std::shared_ptr<Loop>> loops;  // One entry for each helper wanted.
  std::atomic<size_t> waiting{0};           // Of them; for a look without the lock.
  bool spin = false;                        // There is a core for every thread.
  bool stop = false;
  std::vector<std::thread> threads;

  void Run(int number) {
    NameThread(absl::StrCat("pool ", number));
    while (true) {
      std::shared_ptr<Loop> loop;
      if (spin) SpinUntil([this] { return waiting.load(std::memory_order_relaxed) > 0; });
      {
        absl::MutexLock lock(&mu);
        mu.Await(absl::Condition(
            +[](Impl* self) { return self->stop || !self->loops.empty(); }, this));
        if (loops.empty()) return;
        loop = std::move(loops.front());
        loops.pop_front();
        waiting.store(loops.size(), std::memory_order_relaxed);
      }
      loop->Work(loop->stage);
    }
  }
};

ThreadPool::ThreadPool(int threads) : threads_(Resolve(threads)), impl_(std::make_unique<Impl>()) {
  impl_->spin = threads_ <= Cores();
  for (int i = 1; i < threads_; ++i) impl_->threads.emplace_back([this, i] { impl_->Run(i); });
}

ThreadPool::~ThreadPool() {
  {
    absl::MutexLock lock(&impl_->mu);
    impl_->stop = true;
  }
  for (std::thread& t : impl_->threads) t.join();
}

void ThreadPool::ParallelFor(int n, const std::function<void(int)>& fn) {
  if (n <= 0) return;
  if (n == 1 || threads_ == 1) {
    for (int i = 0; i < n; ++i) fn(i);
    return;
  }
  auto loop = std::make_shared<Loop>();
  loop->fn = &fn;
  loop->n = n;
  loop->stage = StageSpan::Current();
  {
    absl::MutexLock lock(&impl_->mu);
    for (int i = 1; i < std::min(threads_, n); ++i) impl_->loops.push_back(loop);
    impl_->waiting.store(impl_->loops.size(), std::memory_order_relaxed);
  }
  loop->Work(std::nullopt);
  std::optional<StageWait> wait;
  if (loop->stage.has_value()) wait.emplace(*loop->stage);
  if (impl_->spin) SpinUntil([&] { return loop->Finished(); });
  absl::MutexLock lock(&loop->mu);
  loop->mu.Await(absl::Condition(loop.get(), &Loop::Finished));
}

}  // namespace starling
