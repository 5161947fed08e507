// bench read: from Parquet to batches of unique ids, beside Arrow's bare scan, a
// script of pyarrow and NumPy, and itself. docs/benchmarks.md says what each line means.
#include "tools/bench_read.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/status.h"
#include "sample_io/generator.h"
#include "scheduler/plan.h"
#include "tools/bench.h"
#include "tools/flags.h"

namespace starling {
namespace {

struct Case {
  const char* name;
  absl::Status (*run)(const ReadBench& bench);
};
const Case kCases[] = {{"memory", BenchReadMemory},  // First: it looks at the whole process.
                       {"compile", BenchReadCompile},  {"peer", BenchReadPeer},
                       {"threads", BenchReadThreads},  {"industrial", BenchReadIndustrial},
                       {"requests", BenchReadRequests}};

constexpr char kConfig[] = R"(
name: bench
data: {train: "%1$s", label: %4$sclick, batch: 4096%2$s}
features:
  - {id: [%3$s], dim: 16}
  - {raw: [%5$s], norm: log1p}
model: {fm: {}}
train: {dir: "%1$s/run"}
)";

std::string Names(const std::string& user, const std::string& item, char letter, int of_user,
                  int all) {
  std::vector<std::string> names;
  for (int i = 1; i <= all; ++i) {
    names.push_back(absl::StrCat(i <= of_user ? user : item, std::string(1, letter), i));
  }
  return absl::StrJoin(names, ", ");
}

absl::Status RunCases(const ReadBench& bench, const std::set<std::string>& cases) {
  for (const Case& c : kCases) {
    if (cases.contains(c.name)) RETURN_IF_ERROR(c.run(bench));
  }
  return absl::OkStatus();
}

}  // namespace

double WallSeconds() { return absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()); }

double CpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

absl::StatusOr<ReadData> OpenFlatData(const ReadBench& bench) {
  GeneratorOptions options;
  options.out = JoinPath(bench.dir, "flat");
  options.rows = bench.rows;
  options.eval_rows = 1000;
  if (!std::filesystem::exists(options.out)) RETURN_IF_ERROR(Generate(options).status());
  return OpenReadData(JoinPath(options.out, "train"));
}

absl::StatusOr<ReadData> OpenReadData(const std::string& dir, const std::string& data,
                                      const std::string& user, const std::string& item,
                                      int64_t read_memory) {
  return OpenConfigured(dir,
                        absl::StrFormat(kConfig, dir, data, Names(user, item, 'C', 23, 26), item,
                                        Names(user, item, 'I', 12, 13)),
                        read_memory);
}

absl::StatusOr<ReadData> OpenConfigured(const std::string& dir, const std::string& config,
                                        int64_t read_memory) {
  Job job;
  SourceMap map;
  RETURN_IF_ERROR(ParseYaml(config, "bench.yaml", {}, &job, &map));
  ASSIGN_OR_RETURN(Plan plan, MakePlan(job, map));
  ReadData read;
  ASSIGN_OR_RETURN(read.source, SampleSource::Open({dir}, {.read_memory = read_memory}));
  ASSIGN_OR_RETURN(read.compiler, FeatureCompiler::Create(plan.features));
  return read;
}

absl::StatusOr<ReadPass> ReadAll(const ReadBench& bench, const ReadData& data, int threads,
                                 const std::function<absl::Status(const Batch&)>& use) {
  BatchReaderOptions options;
  options.batch_rows = bench.batch_rows;
  options.threads = threads;
  ReadPass pass;
  const double wall = WallSeconds(), cpu = CpuSeconds();
  ASSIGN_OR_RETURN(std::unique_ptr<BatchReader> reader,
                   BatchReader::Create(data.source.get(), data.compiler.get(), options, {}));
  Batch batch;
  absl::Status status;
  while ((status = reader->Next(&batch)).ok()) {
    pass.rows += batch.rows;
    for (const TableIds& table : batch.tables) {
      pass.unique_ids += static_cast<int64_t>(table.ids.size());
      pass.ids += static_cast<int64_t>(table.occurrences.size());
    }
    if (use) RETURN_IF_ERROR(use(batch));
  }
  pass.seconds = WallSeconds() - wall;
  pass.cpu_seconds = CpuSeconds() - cpu;
  if (!absl::IsOutOfRange(status)) return status;
  return pass;
}

absl::Status BenchRead(bool quick) {
  std::vector<std::string> names;
  for (const Case& c : kCases) names.push_back(c.name);
  ASSIGN_OR_RETURN(std::set<std::string> cases, CasesAsked("read", names));
  ReadBench bench;
  if (quick) {
    bench.quick = true;
    bench.rows = 60'000;
    bench.large_group_rows = 120'000;
    bench.alternations = 2;
  }
  bench.dir =
      absl::StrCat(std::filesystem::temp_directory_path().string(), "/starling-bench.", getpid());
  RETURN_IF_ERROR(MakeDirs(bench.dir));
  absl::Status status = RunCases(bench, cases);
  RemoveAll(bench.dir).IgnoreError();
  return status;
}

}  // namespace starling
