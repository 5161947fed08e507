#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

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

// So many pieces, of which some threads have taken some.
class Pieces : public SideWork {
 public:
  bool RunSome() override {
    const Inside inside(&inside_);
    int left = left_.load();
    while (left > 0 && !left_.compare_exchange_weak(left, left - 1)) {
    }
    if (left <= 0) return false;
    if (std::this_thread::get_id() == caller_) by_caller_ = true;
    done_.fetch_add(1);
    return true;
  }
  void More(ThreadPool* pool) {
    ++left_;
    pool->NotifySideWork();
  }
  void Await(int pieces) const {
    while (done_.load() < pieces) std::this_thread::yield();
  }
  bool by_caller() const { return by_caller_; }
  int inside() const { return inside_; }

 private:
  struct Inside {
    explicit Inside(std::atomic<int>* n) : n(n) { ++*n; }
    ~Inside() { --*n; }
    std::atomic<int>* n;
  };
  const std::thread::id caller_ = std::this_thread::get_id();
  std::atomic<int> left_{0}, done_{0}, inside_{0};
  std::atomic<bool> by_caller_{false};
};

TEST(ThreadPoolTest, EveryPieceOfSideWorkIsDone) {
  for (int threads : {2, 4}) {
    ThreadPool pool(threads);
    Pieces pieces;
    pool.Add(&pieces);
    for (int piece = 1; piece <= 20000; ++piece) {
      pieces.More(&pool);
      if (piece % 3 == 0) pieces.Await(piece);
    }
    pieces.Await(20000);
    pool.Remove(&pieces);
    EXPECT_EQ(pieces.inside(), 0);
    EXPECT_FALSE(pieces.RunSome()) << "a piece was done twice, so that another was left";
  }
}

// Has nothing to do when it is asked first, and is given something before it says so.
class LateNotice : public SideWork {
 public:
  bool RunSome() override {
    if (asked.HasBeenNotified()) {
      if (!asked_again.HasBeenNotified()) asked_again.Notify();
      return false;
    }
    asked.Notify();
    told.WaitForNotification();
    return false;
  }
  absl::Notification asked, told, asked_again;
};

TEST(ThreadPoolTest, NoticeWhileSideWorkSaysThatItHasNoneIsNotLost) {
  ThreadPool pool(2);
  LateNotice work;
  pool.Add(&work);
  pool.NotifySideWork();
  work.asked.WaitForNotification();
  pool.NotifySideWork();
  work.told.Notify();
  EXPECT_TRUE(work.asked_again.WaitForNotificationWithTimeout(absl::Seconds(20)));
  pool.Remove(&work);
}

TEST(ThreadPoolTest, LoopsAndSideWorkGetOnBesideEachOther) {
  ThreadPool pool(3);
  Pieces first, second;
  pool.Add(&first);
  pool.Add(&second);
  for (int round = 1; round <= 500; ++round) {
    first.More(&pool);
    second.More(&pool);
    std::atomic<int> sum{0};
    pool.ParallelFor(50, [&](int i) { sum.fetch_add(i); });
    ASSERT_EQ(sum.load(), 49 * 50 / 2);
  }
  first.Await(500);
  second.Await(500);
  EXPECT_FALSE(first.by_caller() || second.by_caller()) << "a loop's caller has a loop to end";
  pool.Remove(&first);
  pool.Remove(&second);
}

TEST(ThreadPoolTest, NoThreadIsInSideWorkThatWasRemoved) {
  ThreadPool pool(4);
  for (int round = 0; round < 500; ++round) {
    auto pieces = std::make_unique<Pieces>();
    pool.Add(pieces.get());
    for (int i = 0; i < 20; ++i) pieces->More(&pool);
    pool.Remove(pieces.get());
    EXPECT_EQ(pieces->inside(), 0);
    pieces = nullptr;  // ASan and TSan tell who comes too late.
    pool.NotifySideWork();
  }
}

}  // namespace
}  // namespace starling
