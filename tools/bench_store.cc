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

// Fills the table, with an eye on what the process holds meanwhile.
absl::Status FillAndReportMemory(const StoreBench& bench, EmbeddingTable* table, bool report) {
  // Below this the fixed parts would count, not the rows.
  const int64_t rows_min = bench.rows / 20;
  std::atomic<bool> done{false};
  const int64_t before = ResidentBytes() + int64_t{bench.batch_ids} * (8 + 4 * table->width());
  double largest = 0;
  int64_t rows_at_largest = 0;
  auto per_row = [&](int64_t bytes, int64_t rows) {
    return static_cast<double>(bytes - before) / rows - 4.0 * table->layout().floats();
  };
  std::thread sampler([&] {
    for (; !done; absl::SleepFor(absl::Milliseconds(2))) {
      int64_t bytes = ResidentBytes(), rows = table->rows();
      if (rows < rows_min) continue;
      if (double now = per_row(bytes, rows); now > largest) largest = now, rows_at_largest = rows;
    }
  });
  absl::Status status = Fill(table, 0, bench.rows, bench.batch_ids);
  done = true;
  sampler.join();
  RETURN_IF_ERROR(status);
  if (!report) return absl::OkStatus();
  ReportFigures("store.memory",
                absl::StrCat(RowsText(bench.rows),
                             " x 16, adagrad, bytes a row beyond weights and "
                             "optimizer state"),
                {{"value", per_row(ResidentBytes(), bench.rows)},
                 {"largest_while_growing", largest},
                 {"rows_at_largest", static_cast<double>(rows_at_largest)},
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
      ASSIGN_OR_RETURN(std::unique_ptr<EmbeddingTable> table,
                       EmbeddingTable::Open(StoreSpec(Rule::kAdagrad), {}));
      RETURN_IF_ERROR(FillAndReportMemory(bench, table.get(), has("memory")));
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
