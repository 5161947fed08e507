// bench read, memory: the most that reading holds, whatever the size of row groups.
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/status.h"
#include "sample_io/generator.h"
#include "tools/bench.h"
#include "tools/bench_read.h"
#include "tools/bench_store.h"

namespace starling {
namespace {

constexpr int64_t kReadMemory = 128 << 20;

// Bytes that were resident at most since the last ForgetPeak.
int64_t PeakBytes() {
  FILE* file = fopen("/proc/self/status", "r");
  if (file == nullptr) return 0;
  std::string text(8192, '\0');
  text.resize(fread(text.data(), 1, text.size(), file));
  fclose(file);
  int64_t kib = 0;
  const size_t at = text.find("VmHWM:");
  if (at == std::string::npos) return 0;
  const std::vector<std::string> words =
      absl::StrSplit(text.substr(at + 6, 40), absl::ByAnyChar(" \t\n"), absl::SkipEmpty());
  return absl::SimpleAtoi(words[0], &kib) ? kib << 10 : 0;
}

void ForgetPeak() {
  malloc_trim(0);
  FILE* file = fopen("/proc/self/clear_refs", "w");
  if (file == nullptr) return;
  fputs("5", file);
  fclose(file);
}

// In a process of its own: what the generator held would else still be there,
// free for the reader. REQUIRES: no other thread is under way.
absl::Status GenerateAside(const GeneratorOptions& options) {
  const pid_t child = fork();
  if (child < 0) return absl::InternalError("fork failed");
  if (child == 0) _exit(Generate(options).ok() ? 0 : 1);
  int code = 0;
  if (waitpid(child, &code, 0) == child && code == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("cannot generate ", options.out));
}

std::string GroupsDir(const ReadBench& bench, int64_t group_rows) {
  return JoinPath(bench.dir, absl::StrCat("groups-", group_rows));
}

}  // namespace

absl::Status BenchReadMemory(const ReadBench& bench) {
  const int64_t sizes[] = {10'000, bench.large_group_rows};
  for (const int64_t group_rows : sizes) {
    GeneratorOptions options;
    options.out = GroupsDir(bench, group_rows);
    options.rows = bench.large_group_rows;
    options.eval_rows = 1000;
    options.days = 1;
    options.row_group_rows = static_cast<int>(group_rows);
    RETURN_IF_ERROR(GenerateAside(options));
  }
  for (const int64_t group_rows : sizes) {
    ASSIGN_OR_RETURN(ReadData data, OpenReadData(JoinPath(GroupsDir(bench, group_rows), "train"),
                                                 "", "", "", kReadMemory));
    for (int threads : {1, 2}) {
      ForgetPeak();
      const int64_t before = ResidentBytes();
      ASSIGN_OR_RETURN(ReadPass pass, ReadAll(bench, data, threads));
      ReportFigures("read.memory",
                    absl::StrCat("row groups of ", group_rows, " rows, ", threads, " thread(s)"),
                    {{"read_memory_mib", static_cast<double>(kReadMemory) / (1 << 20)},
                     {"peak_mib", static_cast<double>(PeakBytes() - before) / (1 << 20)},
                     {"rows_per_s", static_cast<double>(pass.rows) / pass.seconds}});
    }
    RETURN_IF_ERROR(RemoveAll(GroupsDir(bench, group_rows)));
  }
  return absl::OkStatus();
}

}  // namespace starling
