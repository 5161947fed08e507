// bench store: training with a table larger than its memory, beside the same
// with all rows in memory.
#include "tools/bench_store_cold.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/status.h"
#include "tools/bench.h"
#include "tools/bench_store_machine.h"

namespace starling {
namespace {

struct Contender {
  LoopWorker* worker;
  std::string what;
  double target;
  std::vector<double> rates;
  LoopRun sum;  // Of all measured runs.
  LoopRun hits;
  int64_t memory = 0, limit = 0;
};

void Add(const LoopRun& run, LoopRun* sum) {
  sum->seconds += run.seconds;
  sum->samples += run.samples;
  sum->ids += run.ids;
  sum->rows_fetched += run.rows_fetched;
  sum->disk_bytes += run.disk_bytes;
}

void ReportContender(const Contender& c, const LoopSize& size,
                     const std::vector<double>& memory_rates, const DiskRate& disk) {
  const std::string what = absl::StrCat("zipf ", RowsText(size.rows), " x 16, adagrad, ", c.what);
  // The disk's own reads, if perfectly overlapped, against the time in memory.
  const double disk_s_a_sample =
      disk.many > 0 ? c.sum.disk_bytes / 4096.0 / disk.many / c.sum.samples : 0;
  const double bound = std::min(1.0, 1 / std::max(1e-12, disk_s_a_sample * Median(memory_rates)));
  Report({"store.cold", what, "samples/s", "the same, all rows in memory", c.rates, memory_rates,
          bound});
  const double ids = static_cast<double>(c.hits.ids), draws = static_cast<double>(c.hits.draws);
  ReportFigures("store.cold.reads", what,
                {{"memory_budget_bytes", static_cast<double>(c.memory)},
                 {"cgroup_limit_bytes", static_cast<double>(c.limit)},
                 {"hit_rate_by_draw", 1 - c.hits.draws_cold / draws},
                 {"hit_rate_by_unique_id", 1 - static_cast<double>(c.hits.rows_fetched) / ids},
                 {"rocksdb_rows_per_s", c.sum.rows_fetched / c.sum.seconds},
                 {"disk_reads_4k_per_s", c.sum.disk_bytes / 4096.0 / c.sum.seconds},
                 {"disk_random_reads_per_s_1_thread", disk.one},
                 {"disk_random_reads_per_s_32_threads", disk.many},
                 {"ids_per_s", c.sum.ids / c.sum.seconds},
                 {"flops_per_s", kLoopFlops * c.sum.samples / c.sum.seconds},
                 {"target_ratio", c.target}});
}

absl::StatusOr<DiskRate> Disk(const StoreBench& bench) {
  absl::StatusOr<DiskRate> disk = MeasureDisk(
      JoinPath(bench.dir, "disk"), bench.quick ? 16 << 20 : 1 << 30, bench.quick ? 0.1 : 2);
  if (disk.ok()) return disk;
  absl::FPrintF(stderr, "SKIPPED the disk's own rate: %s\n", disk.status().message());
  return DiskRate{};
}

}  // namespace

absl::StatusOr<ColdWorkers> ColdWorkers::Start() {
  ColdWorkers workers;
  ASSIGN_OR_RETURN(workers.capped, LoopWorker::Start());
  ASSIGN_OR_RETURN(workers.free, LoopWorker::Start());
  return workers;
}

absl::Status BenchStoreCold(const StoreBench& bench, ColdWorkers started) {
  LoopSize size{.rows = bench.rows};
  if (bench.quick) size = {.rows = bench.rows, .samples = 256, .warm = 4, .batches = 2};
  if (!HasMemory("store.cold", bench.rows * 300 + 2 * kProcessBytes)) return absl::OkStatus();
  ASSIGN_OR_RETURN(DiskRate disk, Disk(bench));
  ASSIGN_OR_RETURN(std::unique_ptr<TrainLoop> memory,
                   TrainLoop::Create(size, 0, JoinPath(bench.dir, "memory")));
  const int64_t bytes = memory->stats().bytes_memory;

  std::vector<Contender> contenders;
  absl::StatusOr<std::unique_ptr<MemoryGroup>> group = MemoryGroup::Create();
  const ColdWorkers workers = std::move(started);  // They end before their group does.
  if (group.ok()) {
    Contender c{
        workers.capped.get(), "2 x its memory, the page cache counted (cgroup)", 0.5, {}, {}, {}};
    c.memory = bytes / 2;
    c.limit = c.memory + kProcessBytes;
    RETURN_IF_ERROR((*group)->Limit(c.limit));
    RETURN_IF_ERROR(
        c.worker->Create(size, c.memory, JoinPath(bench.dir, "capped"), (*group)->path()));
    contenders.push_back(std::move(c));
  } else {
    absl::FPrintF(stderr, "SKIPPED store.cold with the page cache counted: %s\n",
                  group.status().message());
  }
  Contender c{workers.free.get(), "10 x its memory, page cache free", 0.6, {}, {}, {}};
  c.memory = bytes / 10;
  RETURN_IF_ERROR(c.worker->Create(size, c.memory, JoinPath(bench.dir, "free"), ""));
  contenders.push_back(std::move(c));

  std::vector<double> memory_rates;
  for (int a = 0; a < bench.alternations; ++a) {
    ASSIGN_OR_RETURN(LoopRun base, memory->Run(size.batches));
    memory_rates.push_back(base.samples / base.seconds);
    for (Contender& each : contenders) {
      ASSIGN_OR_RETURN(LoopRun run, each.worker->Run(size.batches));
      each.rates.push_back(run.samples / run.seconds);
      Add(run, &each.sum);
    }
  }
  for (Contender& each : contenders) {
    ASSIGN_OR_RETURN(each.hits, each.worker->HitRates(size.batches));
    ReportContender(each, size, memory_rates, disk);
  }
  return absl::OkStatus();
}

}  // namespace starling
