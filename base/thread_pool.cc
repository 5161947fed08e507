#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"

namespace starling {
namespace {

// One ParallelFor under way. Threads take the next index until none is left.
struct Loop {
  const std::function<void(int)>* fn;
  int n;
  std::atomic<int> next{0};
  std::atomic<int> done{0};
  absl::Mutex mu;

  void Work() {
    int i, finished = 0;
    while ((i = next.fetch_add(1, std::memory_order_relaxed)) < n) {
      (*fn)(i);
      ++finished;
    }
    if (finished == 0) return;
    absl::MutexLock lock(&mu);
    done.fetch_add(finished);
  }
  bool Finished() const { return done.load() == n; }
};

int Resolve(int threads) {
  return threads > 0 ? threads : std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace

struct ThreadPool::Impl {
  absl::Mutex mu;
  std::deque<std::shared_ptr<Loop>> loops;  // One entry for each helper wanted.
  bool stop = false;
  std::vector<std::thread> threads;

  void Run() {
    while (true) {
      std::shared_ptr<Loop> loop;
      {
        absl::MutexLock lock(&mu);
        mu.Await(absl::Condition(
            +[](Impl* self) { return self->stop || !self->loops.empty(); }, this));
        if (loops.empty()) return;
        loop = std::move(loops.front());
        loops.pop_front();
      }
      loop->Work();
    }
  }
};

ThreadPool::ThreadPool(int threads) : threads_(Resolve(threads)), impl_(std::make_unique<Impl>()) {
  for (int i = 1; i < threads_; ++i) impl_->threads.emplace_back([this] { impl_->Run(); });
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
  {
    absl::MutexLock lock(&impl_->mu);
    for (int i = 1; i < std::min(threads_, n); ++i) impl_->loops.push_back(loop);
  }
  loop->Work();
  absl::MutexLock lock(&loop->mu);
  loop->mu.Await(absl::Condition(loop.get(), &Loop::Finished));
}

}  // namespace starling
