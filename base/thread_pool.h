// A fixed set of threads for data-parallel loops, and for side work beside them.
//
// Thread safety: ParallelFor may be called from any thread, several at once;
// the caller works too, so a pool of one thread starts none. Work items must
// not block on each other. Threads spin for some 50 us before they sleep, unless they
// are more than the cores.
//
// Side work has to be done some time ahead of its need, by whoever is free. On threads of its own
// it would be one thread more than there are cores, and loops would wait for an item whose thread
// the system took the core from. A pool's threads do it before they help with a loop, a piece to
// its end; the loop's caller goes on meanwhile.
#pragma once

#include <functional>
#include <memory>

namespace starling {

class SideWork {
 public:
  virtual ~SideWork() = default;
  // Does a piece of it; false if there is none to be done now. Called by several threads at once.
  virtual bool RunSome() = 0;
};

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

  // From now on the pool's own threads, of which a pool of one has none, run `work` whenever it
  // has something to do. REQUIRES: it was not added before.
  void Add(SideWork* work);
  // There may be more to do, of any side work.
  void NotifySideWork();
  // Returns when no thread is in it, and none will be.
  void Remove(SideWork* work);

 private:
  struct Impl;
  const int threads_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace starling
