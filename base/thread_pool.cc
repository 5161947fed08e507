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
  struct Side {
    SideWork* work;
    int threads = 0;  // That are in it.
    bool removed = false;
    bool Left() const { return threads == 0; }
  };

  absl::Mutex mu;
  std::deque<std::shared_ptr<Loop>> loops;  // One entry for each helper wanted.
  std::vector<std::shared_ptr<Side>> sides;
  int64_t notices = 0;           // Of side work.
  bool side_due = false;         // Since the last of them all had nothing to do.
  std::atomic<bool> due{false};  // Any of both; for a look without the lock.
  bool spin = false;             // There is a core for every thread.
  bool stop = false;
  std::vector<std::thread> threads;

  void Run(int number) {
    NameThread(absl::StrCat("pool ", number));
    while (true) {
      if (spin) SpinUntil([this] { return due.load(std::memory_order_relaxed); });
      std::shared_ptr<Loop> loop;
      {
        absl::MutexLock lock(&mu);
        mu.Await(absl::Condition(this, &Impl::HasWork));
        if (side_due && RunSide()) continue;
        if (loops.empty() && !stop) continue;
        if (loops.empty()) return;
        loop = std::move(loops.front());
        loops.pop_front();
        SetDue();
      }
      loop->Work(loop->stage);
    }
  }

  bool HasWork() const { return stop || side_due || !loops.empty(); }
  void SetDue() { due.store(side_due || !loops.empty(), std::memory_order_relaxed); }

  // A piece of some side work, without the lock meanwhile.
  bool RunSide() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    const int64_t before = notices;
    for (const std::shared_ptr<Side>& side : std::vector(sides)) {
      if (side->removed) continue;
      ++side->threads;
      mu.Unlock();
      const bool did = side->work->RunSome();
      mu.Lock();
      --side->threads;
      if (did) return true;
    }
    side_due = side_due && notices != before;
    SetDue();
    return false;
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
    impl_->SetDue();
  }
  loop->Work(std::nullopt);
  std::optional<StageWait> wait;
  if (loop->stage.has_value()) wait.emplace(*loop->stage);
  if (impl_->spin) SpinUntil([&] { return loop->Finished(); });
  absl::MutexLock lock(&loop->mu);
  loop->mu.Await(absl::Condition(loop.get(), &Loop::Finished));
}

void ThreadPool::Add(SideWork* work) {
  absl::MutexLock lock(&impl_->mu);
  impl_->sides.push_back(std::make_shared<Impl::Side>(Impl::Side{work}));
}

void ThreadPool::NotifySideWork() {
  absl::MutexLock lock(&impl_->mu);
  ++impl_->notices;
  impl_->side_due = !impl_->sides.empty();
  impl_->SetDue();
}

void ThreadPool::Remove(SideWork* work) {
  absl::MutexLock lock(&impl_->mu);
  const auto at = std::find_if(impl_->sides.begin(), impl_->sides.end(),
                               [work](const auto& side) { return side->work == work; });
  const std::shared_ptr<Impl::Side> side = *at;
  side->removed = true;
  impl_->sides.erase(at);
  impl_->mu.Await(absl::Condition(side.get(), &Impl::Side::Left));
}

}  // namespace starling
