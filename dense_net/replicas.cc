#include "dense_net/replicas.h"

#include <algorithm>
#include <functional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/stages.h"
#include "base/status.h"
#include "dense_net/collective.h"
#include "dense_net/share.h"
#include "dense_net/take_rows.h"
#include "dense_net/workspace.h"

namespace starling {
namespace {

// One thread a replica; the caller's is the first one's.
class Crew {
 public:
  explicit Crew(int size) : turns_(size, 0) {
    for (int i = 1; i < size; ++i) threads_.emplace_back([this, i] { Work(i); });
  }
  ~Crew() {
    {
      absl::MutexLock lock(&mu_);
      stop_ = true;
    }
    for (std::thread& thread : threads_) thread.join();
  }

  // Calls fn(i) for every member, each on its own thread, all at once: they may meet.
  void Run(const std::function<void(int)>& fn) {
    {
      absl::MutexLock lock(&mu_);
      fn_ = &fn;
      stage_ = StageSpan::Current();
      ++turn_;
      busy_ = static_cast<int>(threads_.size());
    }
    fn(0);
    std::optional<StageWait> wait;
    if (const auto stage = StageSpan::Current()) wait.emplace(*stage);
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(
        +[](int* busy) { return *busy == 0; }, &busy_));
  }

 private:
  void Work(int member) {
    NameThread(absl::StrCat("replica ", member));
    while (true) {
      const std::function<void(int)>* fn = nullptr;
      std::optional<Stage> stage;
      {
        absl::MutexLock lock(&mu_);
        const auto called = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
          return stop_ || turns_[member] != turn_;
        };
        mu_.Await(absl::Condition(&called));
        if (stop_) return;
        turns_[member] = turn_;
        fn = fn_;
        stage = stage_;
      }
      {
        std::optional<StageSpan> span;
        if (stage.has_value()) span.emplace(*stage);
        (*fn)(member);
      }
      absl::MutexLock lock(&mu_);
      --busy_;
    }
  }

  absl::Mutex mu_;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  int64_t turn_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<int64_t> turns_ ABSL_GUARDED_BY(mu_);  // By member: the last it took.
  int busy_ ABSL_GUARDED_BY(mu_) = 0;
  const std::function<void(int)>* fn_ ABSL_GUARDED_BY(mu_) = nullptr;
  std::optional<Stage> stage_ ABSL_GUARDED_BY(mu_);  // The caller's.
  std::vector<std::thread> threads_;                 // Last: they use the others.
};

// One replica's input.
struct Part {
  Batch batch;  // The host's: sizes, labels.
  PartIds ids;
  BatchArrays arrays;
  RealBuffer array_memory, params;
  std::vector<RealBuffer> rows;           // By table.
  std::vector<std::vector<Real>> staged;  // The same in the host's memory, on their way.
};

struct PartsBuffer : Replicas::Buffer {
  uint32_t rows = 0;
  JointBatch joint;
  std::vector<int> first_tiles;
  std::vector<Part> parts;
};

void UploadArrays(const Device& device, Part* part) {
  constexpr int64_t kLine = 64;
  const auto bytes_of = [](const auto& array) {
    const auto bytes = static_cast<int64_t>(array.size() * sizeof(array[0]));
    return (bytes + kLine - 1) / kLine * kLine;
  };
  int64_t bytes = 0;
  ForArrays(part->batch, &part->arrays, [&](const auto& from, auto*) { bytes += bytes_of(from); });
  auto* next = reinterpret_cast<char*>(
      part->array_memory.Reserve(device, bytes / static_cast<int64_t>(sizeof(Real))));
  ForArrays(part->batch, &part->arrays, [&](const auto& from, auto* to) {
    *to = from.empty() ? nullptr : reinterpret_cast<decltype(from.data())>(next);
    device.Upload(static_cast<int64_t>(from.size() * sizeof(from[0])), from.data(), next);
    next += bytes_of(from);
  });
}

int64_t BytesOf(std::span<const Real> floats) { return static_cast<int64_t>(floats.size_bytes()); }

class ReplicasImpl : public Replicas {
 public:
  ReplicasImpl(const Network* network, std::vector<const Device*> devices, int threads)
      : network_(network),
        devices_(std::move(devices)),
        members_(devices_.size()),
        collective_(NewCpuCollective(static_cast<int>(devices_.size()))),
        crew_(static_cast<int>(devices_.size())) {
    for (size_t r = 0; r < devices_.size(); ++r) {
      const int each = std::max(1, threads / static_cast<int>(devices_.size()));
      members_[r].pool = std::make_unique<ThreadPool>(each);
      members_[r].workspace = network->NewWorkspace();
    }
  }

  std::unique_ptr<Buffer> NewBuffer() const override {
    auto buffer = std::make_unique<PartsBuffer>();
    buffer->parts.resize(devices_.size());
    return buffer;
  }

  absl::Status CopyBatch(const Batch& batch, Buffer* buffer) const override {
    auto* to = static_cast<PartsBuffer*>(buffer);
    to->rows = batch.rows;
    network_->Measure(batch, &to->joint);
    const int64_t replicas = std::ssize(devices_);
    to->first_tiles.clear();
    for (int64_t r = 0; r <= replicas; ++r) {
      to->first_tiles.push_back(static_cast<int>(to->joint.tiles * r / replicas));
    }
    for (int r = 0; r < replicas; ++r) {
      Part& part = to->parts[r];
      const int64_t first = to->joint.Before(-1, to->first_tiles[r]);
      const int64_t end = to->joint.Before(-1, to->first_tiles[r + 1]);
      TakeRows(batch, static_cast<uint32_t>(first), static_cast<uint32_t>(end - first), &part.batch,
               &part.ids);
      UploadArrays(*devices_[r], &part);
    }
    return FinishAll();
  }

  absl::Status CopyRows(std::span<const std::span<const Real>> rows, std::span<const Real> params,
                        Buffer* buffer) const override {
    for (size_t r = 0; r < devices_.size(); ++r) {
      Part& part = static_cast<PartsBuffer*>(buffer)->parts[r];
      part.rows.resize(rows.size());
      part.staged.resize(rows.size());
      for (size_t t = 0; t < rows.size(); ++t) {
        const int width = network_->spec().table_width(static_cast<int>(t));
        const std::vector<uint32_t>& whole_of = part.ids.whole_of[t];
        std::vector<Real>& staged = part.staged[t];
        staged.resize(whole_of.size() * width);
        for (size_t i = 0; i < whole_of.size(); ++i) {
          std::copy_n(rows[t].data() + int64_t{whole_of[i]} * width, width,
                      staged.data() + i * width);
        }
        devices_[r]->Upload(BytesOf(staged), staged.data(),
                            part.rows[t].Reserve(*devices_[r], std::ssize(staged)));
      }
      devices_[r]->Upload(BytesOf(params), params.data(),
                          part.params.Reserve(*devices_[r], std::ssize(params)));
    }
    return FinishAll();
  }

  absl::StatusOr<double> Train(Buffer* buffer, uint64_t step_seed, ThreadPool* pool,
                               std::span<Real> scores, std::span<const std::span<Real>> row_grads,
                               std::span<Real> param_grads) override {
    const auto& parts = static_cast<const PartsBuffer&>(*buffer);
    crew_.Run([&](int r) {
      Member& member = members_[r];
      member.loss = TrainPart(parts, r, step_seed, scores);
      if (member.loss.ok() && r == 0) {
        devices_[0]->Download(BytesOf(param_grads), member.param_grads.data(), param_grads.data());
      }
      if (absl::Status done = devices_[r]->Finish(); !done.ok()) member.loss = done;
      if (!member.loss.ok()) collective_->Abort();
    });
    for (const Member& member : members_) RETURN_IF_ERROR(member.loss.status());
    StageSpan span(Stage::kCopy);
    for (size_t t = 0; t < row_grads.size(); ++t) SumRows(parts, t, pool, row_grads[t]);
    return members_[0].loss;
  }

 private:
  // What a replica has for itself, step after step.
  struct Member {
    std::unique_ptr<ThreadPool> pool;
    std::unique_ptr<Workspace> workspace;
    RealBuffer scores, param_grads;
    std::vector<RealBuffer> row_grads;            // By table,
    std::vector<std::vector<Real>> summed_grads;  // and in the host's memory.
    absl::StatusOr<double> loss;
  };

  absl::Status FinishAll() const {
    for (const Device* device : devices_) RETURN_IF_ERROR(device->Finish());
    return absl::OkStatus();
  }

  // Trains replica r's part, and brings its scores and rows' gradients to the host.
  absl::StatusOr<double> TrainPart(const PartsBuffer& from, int r, uint64_t step_seed,
                                   std::span<Real> scores) {
    const Part& part = from.parts[r];
    const Device& device = *devices_[r];
    Member& member = members_[r];
    const size_t tables = part.rows.size();
    member.row_grads.resize(tables);
    member.summed_grads.resize(tables);
    std::vector<std::span<const Real>> rows;
    std::vector<std::span<Real>> row_grads;
    for (size_t t = 0; t < tables; ++t) {
      const size_t floats = part.staged[t].size();
      rows.push_back({part.rows[t].data(), floats});
      row_grads.push_back({member.row_grads[t].Reserve(device, std::ssize(rows[t])), floats});
    }
    const auto outputs = static_cast<int64_t>(network_->outputs().size());
    const int64_t floats = part.batch.rows * outputs;
    const int64_t dense = network_->param_floats();
    const std::span<Real> own{member.scores.Reserve(device, floats), static_cast<size_t>(floats)};
    const Share share{&device, &part.arrays, &from.joint, from.first_tiles, r, collective_.get()};
    ASSIGN_OR_RETURN(
        const double loss,
        network_->Train(part.batch, rows, {part.params.data(), static_cast<size_t>(dense)},
                        step_seed, member.pool.get(), member.workspace.get(), own, row_grads,
                        {member.param_grads.Reserve(device, dense), static_cast<size_t>(dense)},
                        &share));
    const int64_t first = from.joint.Before(-1, from.first_tiles[r]);
    device.Download(BytesOf(own), own.data(), scores.data() + first * outputs);
    for (size_t t = 0; t < tables; ++t) {
      member.summed_grads[t].resize(row_grads[t].size());
      device.Download(BytesOf(row_grads[t]), row_grads[t].data(), member.summed_grads[t].data());
    }
    return loss;
  }

  // The joint batch's gradients of table t: zero for an id that no row holds.
  void SumRows(const PartsBuffer& from, size_t t, ThreadPool* pool, std::span<Real> grads) const {
    constexpr int64_t kIdsAtOnce = 2048;
    const Kernels& kernels = CpuDevice().kernels();
    const int width = network_->spec().table_width(static_cast<int>(t));
    const int64_t ids = std::ssize(grads) / width;
    const auto sum = [&](int chunk) {
      const int64_t begin = chunk * kIdsAtOnce, end = std::min(begin + kIdsAtOnce, ids);
      for (int64_t u = begin; u < end; ++u) {
        Real* to = grads.data() + u * width;
        bool add = false;
        for (size_t r = 0; r < devices_.size(); ++r) {
          const uint32_t own = from.parts[r].ids.part_of[t][u];
          if (own == kNoId) continue;
          kernels.copy(width, members_[r].summed_grads[t].data() + int64_t{own} * width, to, add);
          add = true;
        }
        if (!add) kernels.fill(width, 0, to);
      }
    };
    const int chunks = static_cast<int>((ids + kIdsAtOnce - 1) / kIdsAtOnce);
    if (pool != nullptr) return pool->ParallelFor(chunks, sum);
    for (int chunk = 0; chunk < chunks; ++chunk) sum(chunk);
  }

  const Network* const network_;
  const std::vector<const Device*> devices_;
  std::vector<Member> members_;  // Each used by its own thread within Train.
  const std::unique_ptr<Collective> collective_;
  Crew crew_;
};

}  // namespace

std::unique_ptr<Replicas> Replicas::Create(const Network* network,
                                           std::vector<const Device*> devices, int threads) {
  return std::make_unique<ReplicasImpl>(network, std::move(devices), threads);
}

}  // namespace starling
