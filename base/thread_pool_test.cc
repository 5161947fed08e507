#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace starling {
namespace {

TEST(ThreadPoolTest, EveryIndexRunsExactlyOnce) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 200; ++round) {
      std::vector<std::atomic<int>> hits(round % 37);
      pool.ParallelFor(hits.size(), [&](int i) { hits[i].fetch_add(1); });
      for (const std::atomic<int>& h : hits) ASSERT_EQ(h.load(), 1);
    }
  }
}

TEST(ThreadPoolTest, LoopsOfSeveralCallersDoNotMix) {
  ThreadPool pool(3);
  std::vector<std::thread> callers;
  std::atomic<int64_t> total{0};
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int round = 0; round < 100; ++round) {
        std::atomic<int> mine{0};
        pool.ParallelFor(50, [&](int i) { mine.fetch_add(i); });
        total.fetch_add(mine.load());
      }
    });
  }
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(total.load(), 4 * 100 * (49 * 50 / 2));
}

}  // namespace
}  // namespace starling
