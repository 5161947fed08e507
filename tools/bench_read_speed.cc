// The speed of bench read: CPU time beside Arrow's, time beside a script's, and
// how both cores are used.
#include <arrow/io/file.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <parquet/arrow/reader.h>
#include <parquet/file_reader.h>
#include <parquet/properties.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/status.h"
#include "sample_io/generator.h"
#include "tools/bench.h"
#include "tools/bench_read.h"
#include "tools/flags.h"

DEFINE_string(peer, "",
              "bench read: the command that runs tests/bench/read_peer.py, such as "
              "\"python3 tests/bench/read_peer.py\"; default: the case `peer` is left out");

namespace starling {
namespace {

enum class Scan { kRowGroups, kStream };

constexpr int kIndustrialBatch = 2048;
constexpr char kIndustrialConfig[] = R"(
name: bench
data: {train: "%1$s", label: click, batch: %2$d}
features:
  - {id: [S1..S80, L1..L20], dim: 16}
model: {dnn: {hidden: [8]}}
train: {dir: "%1$s/run"}
)";

// Decodes the columns of every file into Arrow arrays, and drops them.
arrow::Result<int64_t> ScanFile(const std::string& path, const std::vector<std::string>& names,
                                Scan how) {
  ARROW_ASSIGN_OR_RAISE(auto file, arrow::io::ReadableFile::Open(path));
  parquet::arrow::FileReaderBuilder builder;
  ARROW_RETURN_NOT_OK(builder.Open(file));
  parquet::ArrowReaderProperties properties(/*use_threads=*/false);
  properties.set_pre_buffer(false);
  builder.properties(properties);
  ARROW_ASSIGN_OR_RAISE(auto reader, builder.Build());
  std::vector<int> leaves;
  for (const std::string& name : names) {
    leaves.push_back(reader->parquet_reader()->metadata()->schema()->ColumnIndex(name));
  }
  int64_t rows = 0;
  if (how == Scan::kStream) {
    std::vector<int> groups;
    for (int g = 0; g < reader->num_row_groups(); ++g) groups.push_back(g);
    ARROW_ASSIGN_OR_RAISE(auto stream, reader->GetRecordBatchReader(groups, leaves));
    std::shared_ptr<arrow::RecordBatch> batch;
    for (;; rows += batch->num_rows()) {
      ARROW_RETURN_NOT_OK(stream->ReadNext(&batch));
      if (batch == nullptr) return rows;
    }
  }
  for (int g = 0; g < reader->num_row_groups(); ++g) {
    ARROW_ASSIGN_OR_RAISE(auto table, reader->ReadRowGroup(g, leaves));
    rows += table->num_rows();
  }
  return rows;
}

// Rows a CPU second of the bare scan; the faster of Arrow's two ways.
absl::StatusOr<double> BareScanRate(const ReadData& data) {
  double best = 0;
  const std::vector<std::string> names = data.compiler->Columns();
  for (Scan how : {Scan::kRowGroups, Scan::kStream}) {
    const double start = CpuSeconds();
    int64_t rows = 0;
    std::string last;
    for (const Split& split : data.source->splits()) {
      if (split.file == last) continue;
      last = split.file;
      auto scanned = ScanFile(split.file, names, how);
      if (!scanned.ok()) return absl::InternalError(scanned.status().ToString());
      rows += *scanned;
    }
    if (rows != data.source->rows()) return absl::InternalError("the bare scan lost rows");
    best = std::max(best, static_cast<double>(rows) / (CpuSeconds() - start));
  }
  return best;
}

// What the script prints: rows, unique ids summed over batches, seconds.
struct PeerPass {
  int64_t rows = 0, unique_ids = 0;
  double seconds = 0;
};
absl::StatusOr<PeerPass> RunPeer(const std::string& dir, int batch_rows) {
  const std::string command = absl::StrCat(FLAGS_peer, " '", dir, "' ", batch_rows);
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return absl::InternalError(absl::StrCat("cannot run ", command));
  std::string text(256, '\0');
  text.resize(fread(text.data(), 1, text.size(), pipe));
  const int code = pclose(pipe);
  const std::vector<std::string> words = absl::StrSplit(text, ' ', absl::SkipWhitespace());
  PeerPass pass;
  if (code == 0 && words.size() == 3 && absl::SimpleAtoi(words[0], &pass.rows) &&
      absl::SimpleAtoi(words[1], &pass.unique_ids) && absl::SimpleAtod(words[2], &pass.seconds)) {
    return pass;
  }
  return absl::FailedPreconditionError(
      absl::StrCat(command, ": exit ", code, ", and it printed \"", text, "\""));
}

std::string Shape(const ReadBench& bench) {
  return absl::StrCat("13 numbers, 26 ids, batch ", bench.batch_rows);
}

double PerSecond(const ReadPass& pass) { return static_cast<double>(pass.rows) / pass.seconds; }

}  // namespace

absl::Status BenchReadCompile(const ReadBench& bench) {
  ASSIGN_OR_RETURN(ReadData data, OpenFlatData(bench));
  BenchResult result{"read.compile",
                     Shape(bench),
                     "rows a CPU second",
                     "Arrow's bare scan of the same columns",
                     {},
                     {},
                     1};
  RETURN_IF_ERROR(ReadAll(bench, data, 1).status());  // Files are in the page cache from here on.
  ReadPass last;
  for (int i = 0; i < bench.alternations; ++i) {
    ASSIGN_OR_RETURN(double bare, BareScanRate(data));
    ASSIGN_OR_RETURN(last, ReadAll(bench, data, 1));
    result.reference_values.push_back(bare);
    result.values.push_back(static_cast<double>(last.rows) / last.cpu_seconds);
  }
  Report(result);
  const double value = Median(result.values), bare = Median(result.reference_values);
  ReportFigures("read.compile.cost", Shape(bench),
                {{"ns_a_row", 1e9 / value},
                 {"ns_a_row_of_the_scan", 1e9 / bare},
                 {"times_the_scan", bare / value},
                 {"times_the_scan_target", 2},
                 {"ids_a_row", static_cast<double>(last.ids) / last.rows},
                 {"unique_ids_a_row", static_cast<double>(last.unique_ids) / last.rows}});
  return absl::OkStatus();
}

absl::Status BenchReadPeer(const ReadBench& bench) {
  if (FLAGS_peer.empty()) {
    fprintf(stderr, "SKIPPED read.peer: --peer names no script\n");
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(ReadData data, OpenFlatData(bench));
  BenchResult result{
      "read.peer", Shape(bench) + ", one thread", "rows/s", "pyarrow + NumPy unique", {}, {}, 0};
  for (int i = 0; i < std::min(3, bench.alternations); ++i) {
    ASSIGN_OR_RETURN(PeerPass peer, RunPeer(JoinPath(bench.dir, "flat/train"), bench.batch_rows));
    ASSIGN_OR_RETURN(ReadPass pass, ReadAll(bench, data, 1));
    if (peer.rows != pass.rows || peer.unique_ids != pass.unique_ids) {
      return absl::InternalError(absl::StrCat("the script made ", peer.unique_ids,
                                              " unique ids of ", peer.rows, " rows, not ",
                                              pass.unique_ids, " of ", pass.rows));
    }
    result.reference_values.push_back(static_cast<double>(peer.rows) / peer.seconds);
    result.values.push_back(PerSecond(pass));
  }
  Report(result);
  return absl::OkStatus();
}

absl::Status BenchReadThreads(const ReadBench& bench) {
  ASSIGN_OR_RETURN(ReadData data, OpenFlatData(bench));
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  for (int threads = 2; threads <= cores; threads *= 2) {
    BenchResult result{"read.threads",
                       absl::StrCat(Shape(bench), ", ", threads, " threads"),
                       "rows/s",
                       "one thread",
                       {},
                       {},
                       static_cast<double>(threads)};
    for (int i = 0; i < bench.alternations; ++i) {
      ASSIGN_OR_RETURN(ReadPass one, ReadAll(bench, data, 1));
      ASSIGN_OR_RETURN(ReadPass many, ReadAll(bench, data, threads));
      result.reference_values.push_back(PerSecond(one));
      result.values.push_back(PerSecond(many));
    }
    Report(result);
  }
  return absl::OkStatus();
}

absl::Status BenchReadIndustrial(const ReadBench& bench) {
  GeneratorOptions options;
  options.out = JoinPath(bench.dir, "industrial");
  options.shape = DataShape::kIndustrial;
  options.rows = bench.rows / 40;
  options.eval_rows = 1000;
  RETURN_IF_ERROR(Generate(options).status());
  const std::string dir = JoinPath(options.out, "train");
  ASSIGN_OR_RETURN(ReadData data,
                   OpenConfigured(dir, absl::StrFormat(kIndustrialConfig, dir, kIndustrialBatch)));
  ReadBench large = bench;
  large.batch_rows = kIndustrialBatch;
  std::vector<double> ns_an_id;
  ReadPass last;
  for (int i = 0; i < bench.alternations; ++i) {
    ASSIGN_OR_RETURN(last, ReadAll(large, data, 1));
    ns_an_id.push_back(1e9 * last.cpu_seconds / static_cast<double>(last.ids));
  }
  const double rows = static_cast<double>(last.rows);
  ReportFigures("read.industrial", "80 ids and 20 lists a row, batch 2048, CPU of all threads",
                {{"ns_an_id", Median(ns_an_id)},
                 {"ns_an_id_least", *std::min_element(ns_an_id.begin(), ns_an_id.end())},
                 {"ns_an_id_most", *std::max_element(ns_an_id.begin(), ns_an_id.end())},
                 {"ids_a_row", static_cast<double>(last.ids) / rows},
                 {"unique_ids_a_row", static_cast<double>(last.unique_ids) / rows}});
  return absl::OkStatus();
}

}  // namespace starling
