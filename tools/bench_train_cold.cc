// bench train, case cold: the same job from its first step, with all rows in memory and with a
// table that ends at ten times its memory, in turn. The first half of the pass is for the table
// to grow, the second counts.
#include "tools/bench_train_cold.h"

#include <cstdio>

#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/status.h"
#include "sample_io/generator.h"
#include "tools/bench.h"
#include "tools/bench_store_machine.h"
#include "tools/bench_train.h"

namespace starling {
namespace {

constexpr char kConfig[] = R"(
name: cold
data: {train: "%1$s/cold/train", label: click, event_time: ts, batch: 4096}
features:
  - {id: [C1..C26], dim: 16, table: {memory: %2$d}}
  - {raw: [I1..I13], norm: log1p}
model: {deepfm: {hidden: [400, 400, 400]}}
optimizer: {sparse: {adagrad: {lr: 0.02}}, dense: {adam: {lr: 0.001}}}
train: {dir: "%1$s/run", checkpoint: {every: 0s}}
)";
constexpr int64_t kAllMemory = int64_t{8} << 30;
constexpr int kTimesMemory = 10;

struct Trained {
  double rate = 0;       // Samples/s of the second half.
  double rows_read = 0;  // From RocksDB a sample, of the whole pass.
  int64_t rows = 0, bytes_memory = 0;
};
absl::StatusOr<Trained> Train(const std::string& dir, const char* name, int64_t memory,
                              int64_t samples) {
  ThreadPool pool(0);
  ASSIGN_OR_RETURN(
      std::unique_ptr<TrainBench> bench,
      TrainBench::Create(absl::StrFormat(kConfig, dir, memory), JoinPath(dir, name), &pool));
  ASSIGN_OR_RETURN(const TrainPass pass, bench->Pass(samples / 2));
  const TableStats stats = bench->store().table(0).stats();
  return Trained{static_cast<double>(pass.samples) / pass.seconds,
                 static_cast<double>(stats.promoted) / static_cast<double>(samples),
                 stats.rows_memory + stats.rows_cold, stats.bytes_memory};
}

absl::StatusOr<CappedTraining::Rate> TrainCapped(const CappedTraining::Command& command) {
  RETURN_IF_ERROR(MemoryGroup::Join(command.group.data()));
  ASSIGN_OR_RETURN(const Trained trained,
                   Train(command.dir.data(), "capped", command.memory, command.samples));
  return CappedTraining::Rate{trained.rate};
}

// With the page cache limited, beside the figures that it was free for.
absl::Status ReportCapped(CappedTraining capped, const std::string& what, const std::string& dir,
                          CappedTraining::Command command) {
  absl::StatusOr<std::unique_ptr<MemoryGroup>> group = MemoryGroup::Create();
  const CappedTraining training = std::move(capped);  // It ends before its group does.
  if (!group.ok()) {
    absl::FPrintF(stderr, "SKIPPED train.cold with the page cache counted: %s\n",
                  group.status().message());
    return absl::OkStatus();
  }
  const int64_t limit = command.memory + kProcessBytes;
  RETURN_IF_ERROR((*group)->Limit(limit));
  ASSIGN_OR_RETURN(command.dir, CommandPathOf(dir));
  ASSIGN_OR_RETURN(command.group, CommandPathOf((*group)->path()));
  ASSIGN_OR_RETURN(const CappedTraining::Rate rate, training.child.Ask(command));
  ReportFigures(
      "train.cold.capped", absl::StrCat(what, ", the page cache counted (cgroup)"),
      {{"samples_per_s", rate.samples_per_s}, {"cgroup_limit_bytes", static_cast<double>(limit)}});
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CappedTraining> CappedTraining::Start() {
  CappedTraining capped;
  ASSIGN_OR_RETURN(capped.child, (BenchChild<Command, Rate>::Start(TrainCapped)));
  return capped;
}

absl::Status BenchTrainCold(const std::string& dir, bool quick, CappedTraining capped) {
  GeneratorOptions data;
  data.out = JoinPath(dir, "cold");
  data.shape = DataShape::kCriteo;
  data.rows = quick ? 40'000 : 1'200'000;
  data.eval_rows = 1000;
  RETURN_IF_ERROR(Generate(data).status());
  BenchResult result{"train.cold", "", "samples/s", "the same, all rows in memory", {}, {}, 1};
  int64_t rows = 0, memory = 0;
  double rows_read = 0;
  for (int i = 0; i < (quick ? 2 : 3); ++i) {
    ASSIGN_OR_RETURN(const Trained all, Train(dir, "all", kAllMemory, data.rows));
    rows = all.rows;
    memory = all.bytes_memory / kTimesMemory;
    ASSIGN_OR_RETURN(const Trained cold, Train(dir, "beyond", memory, data.rows));
    rows_read = cold.rows_read;
    result.reference_values.push_back(all.rate);
    result.values.push_back(cold.rate);
  }
  const std::string what =
      absl::StrFormat("deepfm 400x3, %d rows, %d x their memory", rows, kTimesMemory);
  result.what = absl::StrCat(what, ", page cache free");
  Report(result);
  ReportFigures("train.cold.rows", what,
                {{"memory_budget_bytes", static_cast<double>(memory)},
                 {"rows_read_a_sample", rows_read},
                 {"target_ratio", 0.7}});
  return ReportCapped(std::move(capped), what, dir,
                      {.dir = {}, .group = {}, .memory = memory, .samples = data.rows});
}

}  // namespace starling
