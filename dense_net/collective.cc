#include "dense_net/collective.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "base/stages.h"
#include "dense_net/device.h"

namespace starling {
namespace {

constexpr int64_t kLine = 16;  // Floats: chunks end on a cache line's border.

class CpuCollective : public Collective {
 public:
  explicit CpuCollective(int replicas) : data_(replicas), numbers_(replicas) {}

  // Each replica sums one chunk for all.
  void AllReduce(int replica, int64_t floats, Real* data) override {
    data_[replica] = data;
    if (!Meet()) return;
    const int64_t n = std::ssize(data_), lines = (floats + kLine - 1) / kLine;
    const int64_t begin = lines * replica / n * kLine;
    const int64_t size = std::min(floats, lines * (replica + 1) / n * kLine) - begin;
    const Kernels& kernels = CpuDevice().kernels();
    for (int r = 1; r < n; ++r) kernels.copy(size, data_[r] + begin, data_[0] + begin, true);
    for (int r = 1; r < n; ++r) kernels.copy(size, data_[0] + begin, data_[r] + begin, false);
    Meet();
  }

  void AllGather(int replica, std::span<const int> borders, int64_t floats, Real* data) override {
    data_[replica] = data;
    if (!Meet()) return;
    for (int r = 0; r < std::ssize(data_); ++r) {
      const int64_t begin = borders[r] * floats, size = borders[r + 1] * floats - begin;
      if (r != replica) std::copy_n(data_[r] + begin, size, data + begin);
    }
    Meet();
  }

  void Exchange(int replica, double mine, std::span<double> all) override {
    numbers_[replica] = mine;
    if (!Meet()) return;
    std::copy(numbers_.begin(), numbers_.end(), all.begin());
    Meet();
  }

  void Abort() override {
    absl::MutexLock lock(&mu_);
    aborted_ = true;
  }

 private:
  // Returns when all replicas have called it. False: some replica cannot come.
  bool Meet() {
    std::optional<StageWait> wait;
    if (const auto stage = StageSpan::Current()) wait.emplace(*stage);
    absl::MutexLock lock(&mu_);
    const int64_t meeting = meeting_;
    if (++arrived_ == std::ssize(data_)) {
      arrived_ = 0;
      ++meeting_;
    }
    const auto over = [this, meeting]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return meeting_ != meeting || aborted_;
    };
    mu_.Await(absl::Condition(&over));
    return !aborted_;
  }

  std::vector<Real*> data_;      // By replica: written by it before a meeting,
  std::vector<double> numbers_;  // read by all until the next.
  absl::Mutex mu_;
  int arrived_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t meeting_ ABSL_GUARDED_BY(mu_) = 0;
  bool aborted_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace

std::unique_ptr<Collective> NewCpuCollective(int replicas) {
  return std::make_unique<CpuCollective>(replicas);
}

}  // namespace starling
