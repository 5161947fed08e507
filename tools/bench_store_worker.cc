#include "tools/bench_store_worker.h"

#include <algorithm>
#include <bit>
#include <map>
#include <thread>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "tools/bench_gemm.h"
#include "tools/bench_store_machine.h"

namespace starling {
namespace {

constexpr int kDrawsOfSample = 26, kAhead = 4;

// `flops` of the products that a hidden layer is made of, on all cores.
void Compute(ThreadPool* pool, double flops) {
  constexpr int kRows = 256, kWidth = 400;
  const BareGemm gemm = EigenGemm();
  const int products = std::max(1.0, flops / (2.0 * kRows * kWidth * kWidth) + 0.5);
  pool->ParallelFor(products, [&](int) {
    static thread_local std::vector<float> a(kRows * kWidth, 0.5f), b(kWidth * kWidth, 0.25f),
        c(kRows * kWidth);
    gemm({.m = kRows, .n = kWidth, .k = kWidth, .a = a.data(), .b = b.data(), .c = c.data()});
  });
}

// Adds what the table and the disk did since `before`.
void AddSince(const TableStats& before, const TableStats& now, LoopRun* run) {
  run->rows_fetched += now.promoted - before.promoted;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TrainLoop>> TrainLoop::Create(const LoopSize& size, int64_t memory,
                                                             const std::string& scratch_dir) {
  ASSIGN_OR_RETURN(std::unique_ptr<EmbeddingTable> table,
                   EmbeddingTable::Open(StoreSpec(Rule::kAdagrad, memory), {scratch_dir, nullptr}));
  RETURN_IF_ERROR(
      Fill(table.get(), 0, size.rows, 65536, ZipfSights(size.rows, size.history * kDrawsOfSample)));
  std::unique_ptr<TrainLoop> loop(new TrainLoop(size, std::move(table)));
  for (int i = 0; i < size.warm; ++i) {  // What is in memory settles without computing.
    RETURN_IF_ERROR(loop->Update(loop->BatchOf(loop->next_++), /*flops=*/0));
  }
  loop->AwaitCompactions();
  return loop;
}

void TrainLoop::AwaitCompactions() const {
  constexpr absl::Duration kQuiet = absl::Seconds(1), kPatience = absl::Minutes(3);
  const absl::Time give_up = absl::Now() + kPatience;
  int64_t before = -1, written = table_->stats().cold_bytes_written;
  while (written != before && absl::Now() < give_up) {
    absl::SleepFor(kQuiet);
    before = written;
    written = table_->stats().cold_bytes_written;
  }
}

IdBatch TrainLoop::BatchOf(int64_t number) const {
  return DrawBatch(Draw::kZipf, size_.rows, INT64_MAX, int64_t{size_.samples} * kDrawsOfSample,
                   /*seed=*/77, number);
}

absl::Status TrainLoop::Update(const IdBatch& batch, double flops) {
  const size_t floats = batch.ids.size() * table_->width();
  weights_.resize(std::max(weights_.size(), floats));
  grads_.resize(weights_.size(), 0.001f);
  RETURN_IF_ERROR(
      table_->LookupOrCreate(batch.ids, batch.counts, {}, std::span(weights_).first(floats)));
  if (flops > 0) Compute(&pool_, flops);
  return table_->ApplyGradients(batch.ids, std::span(grads_).first(floats), 1);
}

absl::StatusOr<LoopRun> TrainLoop::Run(int batches) {
  // Drawn beforehand: those of this run, and those it prefetches for the next.
  std::vector<IdBatch> drawn;
  for (int i = 0; i < batches + kAhead; ++i) drawn.push_back(BatchOf(next_ + i));
  const int64_t first = next_;
  absl::Mutex mu;
  int64_t current = first;  // Guarded by mu. The batch that trains now.
  bool stop = false;        // Guarded by mu.
  const TableStats before = table_->stats();
  LoopRun run{.samples = int64_t{batches} * size_.samples};
  run.disk_bytes = -DiskBytesRead();
  const double start = Seconds();
  std::thread prefetcher([&] {
    int64_t next = std::max(prefetched_, first + 1);
    while (next < first + batches + kAhead) {
      {
        absl::MutexLock lock(&mu);
        auto due = [&] { return stop || next <= current + kAhead; };
        mu.Await(absl::Condition(&due));
        if (stop) break;
        next = std::max(next, current + 1);  // What trains already needs no prefetch.
      }
      table_->Prefetch(drawn[next - first].ids);
      ++next;
    }
    prefetched_ = next;
  });
  absl::Status status;
  for (int i = 0; i < batches && status.ok(); ++i) {
    {
      absl::MutexLock lock(&mu);
      current = first + i;
    }
    status = Update(drawn[i], kLoopFlops * size_.samples);
    run.ids += drawn[i].ids.size();
    run.draws += int64_t{size_.samples} * kDrawsOfSample;
  }
  run.seconds = Seconds() - start;
  {
    absl::MutexLock lock(&mu);
    stop = true;
  }
  prefetcher.join();
  RETURN_IF_ERROR(status);
  next_ += batches;
  AddSince(before, table_->stats(), &run);
  run.disk_bytes += DiskBytesRead();
  return run;
}

absl::StatusOr<LoopRun> TrainLoop::HitRates(int batches) {
  LoopRun run;
  for (int i = 0; i < batches; ++i) {
    // Batches that no run has prefetched yet.
    IdBatch batch = BatchOf(std::max(next_, prefetched_) + i);
    struct Group {
      std::vector<uint64_t> ids;
      int64_t draws = 0;
    };
    std::map<uint32_t, Group> groups;  // By count; the frequent ones by its power of 2.
    for (size_t p = 0; p < batch.ids.size(); ++p) {
      uint32_t count = batch.counts[p];
      Group& group = groups[count < 8 ? count : std::bit_floor(count)];
      group.ids.push_back(batch.ids[p]);
      group.draws += count;
    }
    for (const auto& [count, group] : groups) {
      TableStats before = table_->stats();
      table_->Prefetch(group.ids);
      int64_t cold = table_->stats().promoted - before.promoted;
      run.ids += group.ids.size();
      run.draws += group.draws;
      run.rows_fetched += cold;
      run.draws_cold += static_cast<double>(group.draws) / group.ids.size() * cold;
    }
    RETURN_IF_ERROR(Update(batch, kLoopFlops * size_.samples));
  }
  next_ = prefetched_ = std::max(next_, prefetched_) + batches;
  return run;
}

absl::StatusOr<std::unique_ptr<LoopWorker>> LoopWorker::Start() {
  // The function alone holds the loop, so that the child removes the table's scratch files.
  auto answer = [loop = std::make_shared<std::unique_ptr<TrainLoop>>()](
                    const Command& command) -> absl::StatusOr<LoopRun> {
    if (command.kind == Command::kRun) return (*loop)->Run(command.batches);
    if (command.kind == Command::kHitRates) return (*loop)->HitRates(command.batches);
    if (command.group[0] != 0) RETURN_IF_ERROR(MemoryGroup::Join(command.group.data()));
    ASSIGN_OR_RETURN(*loop,
                     TrainLoop::Create(command.size, command.memory, command.scratch_dir.data()));
    return LoopRun{};
  };
  ASSIGN_OR_RETURN(Child child, Child::Start(std::move(answer)));
  return std::unique_ptr<LoopWorker>(new LoopWorker(std::move(child)));
}

absl::Status LoopWorker::Create(const LoopSize& size, int64_t memory,
                                const std::string& scratch_dir, const std::string& group) {
  Command command{.kind = Command::kCreate, .size = size, .memory = memory};
  ASSIGN_OR_RETURN(command.scratch_dir, CommandPathOf(scratch_dir));
  ASSIGN_OR_RETURN(command.group, CommandPathOf(group));
  return child_.Ask(command).status();
}

absl::StatusOr<LoopRun> LoopWorker::Run(int batches) {
  return child_.Ask({.kind = Command::kRun, .batches = batches});
}

absl::StatusOr<LoopRun> LoopWorker::HitRates(int batches) {
  return child_.Ask({.kind = Command::kHitRates, .batches = batches});
}

}  // namespace starling
