// bench store: the embedding table beside bare memory, under growth, beyond
// memory and under a snapshot. docs/benchmarks.md says what each line means.
#include "tools/bench_store.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <set>
#include <thread>

#include "absl/time/clock.h"
#include "base/file.h"
#include "base/status.h"
#include "tools/bench.h"
#include "tools/bench_store_cold.h"
#include "tools/flags.h"

DEFINE_int64(
    table_rows, 0,
    "bench store, checkpoint: rows of the table, or rows beyond those of the data; default: "
    "20 and 4 million, with --quick 200,000");

namespace starling {
namespace {

const char* const kCases[] = {"memory", "lookup", "apply", "snapshot", "scale", "cold"};

// Bytes a row of a table on its way from none to all rows, beyond weights and state.
struct RowOverhead {
  double value = 0, largest = 0;
  int64_t rows_at_largest = 0;
};

// Fills the table, with an eye on what the process holds beyond `before`.
absl::StatusOr<RowOverhead> FillAndWatch(const StoreBench& bench, EmbeddingTable* table,
                                         int64_t before) {
  // Below this the fixed parts would count, not the rows.
  const int64_t rows_min = bench.rows / 20;
  std::atomic<bool> done{false};
  before += int64_t{bench.batch_ids} * (8 + 4 * table->width());
  RowOverhead overhead;
  auto per_row = [&](int64_t bytes, int64_t rows) {
    return static_cast<double>(bytes - before) / rows - 4.0 * table->layout().floats();
  };
  std::thread sampler([&] {
    for (; !done; absl::SleepFor(absl::Milliseconds(2))) {
      const int64_t bytes = ResidentBytes(), rows = table->rows();
      if (rows < rows_min) continue;
      const double now = per_row(bytes, rows);
      if (now > overhead.largest) overhead.largest = now, overhead.rows_at_largest = rows;
    }
  });
  absl::Status status = Fill(table, 0, bench.rows, bench.batch_ids);
  done = true;
  sampler.join();
  RETURN_IF_ERROR(status);
  overhead.value = per_row(ResidentBytes(), bench.rows);
  return overhead;
}

absl::Status BenchStoreMemory(const StoreBench& bench) {
  ASSIGN_OR_RETURN(std::unique_ptr<EmbeddingTable> table,
                   EmbeddingTable::Open(StoreSpec(Rule::kAdagrad), {}));
  ASSIGN_OR_RETURN(const RowOverhead growing, FillAndWatch(bench, table.get(), ResidentBytes()));
  table.reset();
  const int64_t before = ResidentBytes();
  ASSIGN_OR_RETURN(table, OpenExpecting(Rule::kAdagrad, bench.rows));
  ASSIGN_OR_RETURN(const RowOverhead expecting, FillAndWatch(bench, table.get(), before));
  ReportFigures("store.memory",
                absl::StrCat(RowsText(bench.rows),
                             " x 16, adagrad, bytes a row beyond weights and optimizer state"),
                {{"value", growing.value},
                 {"largest_while_growing", growing.largest},
                 {"rows_at_largest", static_cast<double>(growing.rows_at_largest)},
                 {"with_rows_expected", expecting.value},
                 {"target", 28}});
  return absl::OkStatus();
}

absl::Status RunCases(const StoreBench& bench, const std::set<std::string>& cases) {
  auto has = [&](const char* name) { return cases.contains(name); };
  ColdWorkers cold;
  if (has("cold")) {
    ASSIGN_OR_RETURN(cold, ColdWorkers::Start());  // Before there are threads.
  }
  if (has("memory") || has("lookup") || has("apply") || has("snapshot")) {
    if (HasMemory("store.memory, lookup, apply and snapshot", bench.rows * (128 + 64))) {
      if (has("memory")) RETURN_IF_ERROR(BenchStoreMemory(bench));
      ASSIGN_OR_RETURN(std::unique_ptr<EmbeddingTable> table,
                       OpenExpecting(Rule::kAdagrad, bench.rows));
      RETURN_IF_ERROR(Fill(table.get(), 0, bench.rows, bench.batch_ids));
      if (has("lookup")) RETURN_IF_ERROR(BenchStoreLookup(bench, table.get()));
      if (has("apply")) RETURN_IF_ERROR(BenchStoreApply(bench, table.get()));
      if (has("snapshot")) RETURN_IF_ERROR(BenchStoreSnapshot(bench, table.get()));
    }
  }
  if (has("scale")) RETURN_IF_ERROR(BenchStoreScale(bench));
  if (has("cold")) RETURN_IF_ERROR(BenchStoreCold(bench, std::move(cold)));
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchStore(bool quick) {
  ASSIGN_OR_RETURN(std::set<std::string> cases,
                   CasesAsked("store", {std::begin(kCases), std::end(kCases)}));
  StoreBench bench;
  if (quick) {
    bench = {.quick = true,
             .rows = 200'000,
             .batch_ids = 8192,
             .batches = 4,
             .calls = 4,
             .warm = 1,
             .alternations = 2,
             .dir = ""};
  }
  if (FLAGS_table_rows != 0) bench.rows = FLAGS_table_rows;
  if (bench.rows < 10 * bench.batch_ids || bench.rows > 26'000'000) {
    return absl::InvalidArgumentError(
        absl::StrCat("--table_rows: from ", 10 * bench.batch_ids, " to 26000000"));
  }
  bench.dir =
      absl::StrCat(std::filesystem::temp_directory_path().string(), "/starling-bench.", getpid());
  RETURN_IF_ERROR(MakeDirs(bench.dir));
  absl::Status status = RunCases(bench, cases);
  RemoveAll(bench.dir).IgnoreError();
  return status;
}

}  // namespace starling
