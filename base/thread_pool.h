// A fixed set of threads for data-parallel loops.
//
// Thread safety: ParallelFor may be called from any thread, several at once;
// the caller works too, so a pool of one thread starts none. Work items must
// not block on each other. Threads spin for some 50 us before they sleep, unless they
// are more than the cores.
#pragma once

#include <functional>
#include <memory>

namespace starling {

class ThreadPool {
 public:
  // `threads` counts the caller; 0 means one per core.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // Calls fn(i) for every i in [0, n), each once, on any thread, and returns
  // when all have returned. Which thread runs which i is unspecified: results
  // must not depend on it.
  void ParallelFor(int n, const std::function<void(int)>& fn);

 private:
  struct Impl;
  const int threads_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace starling
