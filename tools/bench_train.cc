// bench train: samples/s from Parquet to pushed gradients, the GEMM rate the
// model reached, and the machine's bare GEMM rate in the same run; and rows that
// share a user (bench_train_requests.cc); tables of many rows (bench_train_rows.cc) and
// larger than their memory (bench_train_cold.cc).
#include "tools/bench_train.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/status.h"
#include "sample_io/generator.h"
#include "tools/bench.h"
#include "tools/bench_gemm.h"
#include "tools/bench_train_cold.h"
#include "tools/flags.h"

namespace starling {
namespace {

constexpr char kConfig[] = R"(
name: bench
data: {train: "%s/data/train", label: click, event_time: ts, batch: 4096}
features:
  - {id: [C1..C26], dim: 16, table: {memory: 8GiB}}
  - {raw: [I1..I13], norm: log1p}
model: {%s: {hidden: [400, 400, 400]}}
optimizer: {sparse: {adagrad: {lr: 0.02}}, dense: {adam: {lr: 0.001}}}
train: {dir: "%s/run", checkpoint: {every: 0s}}
)";

double Now() { return absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()); }

// FLOP/s of 256 x 400 x 400 products on every core at once: the shape of a
// tile in a hidden layer, operands in cache.
double BareGemmRate(ThreadPool* pool, double seconds) {
  constexpr int kRows = 256, kWidth = 400;
  const BareGemm gemm = EigenGemm();
  std::atomic<int64_t> done{0};
  double start = Now();
  pool->ParallelFor(pool->threads(), [&](int) {
    std::vector<float> a(kRows * kWidth, 0.5f), b(kWidth * kWidth, 0.25f), c(kRows * kWidth);
    const BareProduct product{
        .m = kRows, .n = kWidth, .k = kWidth, .a = a.data(), .b = b.data(), .c = c.data()};
    while (Now() - start < seconds) {
      for (int i = 0; i < 8; ++i) gemm(product);
      done += 8;
    }
  });
  return 2.0 * kRows * kWidth * kWidth * static_cast<double>(done) / (Now() - start);
}

absl::Status RunModel(const std::string& dir, const char* name, int alternations,
                      double gemm_seconds) {
  ThreadPool pool(0);
  ASSIGN_OR_RETURN(std::unique_ptr<TrainBench> bench,
                   TrainBench::Create(absl::StrFormat(kConfig, dir, name, dir), dir, &pool));
  RETURN_IF_ERROR(bench->Pass().status());  // Rows are made here.
  StageTimes before = bench->times();
  BenchResult result{"train",
                     absl::StrCat(name, " 400x3, 26 ids x 16, batch 4096"),
                     "FLOP/s, all rows' products counted",
                     "bare GEMM (Eigen), all cores",
                     {},
                     {},
                     0};  // Products that rows share are computed once.
  double seconds = 0, samples = 0;
  for (int i = 0; i < alternations; ++i) {
    result.reference_values.push_back(BareGemmRate(&pool, gemm_seconds));
    ASSIGN_OR_RETURN(TrainPass pass, bench->Pass());
    result.values.push_back(bench->network().gemm_flops_train() * pass.samples / pass.seconds);
    seconds += pass.seconds;
    samples += pass.samples;
  }
  Report(result);
  const StageTimes& t = bench->times();
  double wait = t.wait_read - before.wait_read, pull = t.pull - before.pull,
         compute = t.compute - before.compute, push = t.push - before.push;
  if (FLAGS_json) {
    absl::PrintF(
        R"({"bench": "train.stages", "case": "%s", "samples_per_s": %.1f, "seconds": %.3f, "wait_read": %.3f, )"
        R"("pull": %.3f, "compute": %.3f, "push": %.3f})"
        "\n",
        name, samples / seconds, seconds, wait, pull, compute, push);
  } else {
    absl::PrintF(
        "  %.0f samples/s; of the time: %.0f %% compute, %.0f %% pull, %.0f %% push, %.0f %% "
        "waiting for a batch\n",
        samples / seconds, 100 * compute / seconds, 100 * pull / seconds, 100 * push / seconds,
        100 * wait / seconds);
  }
  return absl::OkStatus();
}

absl::Status BenchModels(const std::string& dir, bool quick) {
  GeneratorOptions data;
  data.out = JoinPath(dir, "data");
  data.rows = quick ? 40'000 : 400'000;
  data.eval_rows = 1000;
  RETURN_IF_ERROR(Generate(data).status());
  for (const char* model : {"deepfm", "dcnv2"}) {
    RETURN_IF_ERROR(RunModel(dir, model, quick ? 2 : 7, quick ? 0.1 : 1.0));
  }
  return absl::OkStatus();
}

absl::Status RunCases(const std::string& dir, bool quick, const std::set<std::string>& cases) {
  CappedTraining capped;
  if (cases.contains("cold")) {
    ASSIGN_OR_RETURN(capped, CappedTraining::Start());  // Before there are threads.
  }
  if (cases.contains("models")) RETURN_IF_ERROR(BenchModels(dir, quick));
  if (cases.contains("requests")) RETURN_IF_ERROR(BenchTrainRequests(dir, quick));
  if (cases.contains("rows")) RETURN_IF_ERROR(BenchTrainRows(dir, quick));
  if (cases.contains("cold")) RETURN_IF_ERROR(BenchTrainCold(dir, quick, std::move(capped)));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<TrainBench>> TrainBench::Create(const std::string& config,
                                                               const std::string& dir,
                                                               ThreadPool* pool) {
  std::unique_ptr<TrainBench> bench(new TrainBench);
  bench->pool_ = pool;
  Job job;
  SourceMap map;
  RETURN_IF_ERROR(ParseYaml(config, "bench.yaml", {}, &job, &map));
  ASSIGN_OR_RETURN(bench->plan_, MakePlan(job, map));
  ASSIGN_OR_RETURN(bench->source_,
                   SampleSource::Open({job.data().train().begin(), job.data().train().end()}));
  ASSIGN_OR_RETURN(bench->model_,
                   LocalModel::Create(SpecOf(bench->plan_), NetworkOptionsOf(bench->plan_.job),
                                      JoinPath(dir, "scratch"), pool));
  bench->pipeline_ = std::make_unique<StepPipeline>(
      &bench->model_->network(), &bench->model_->client(), pool, PipelineOptions());
  return bench;
}

absl::StatusOr<std::unique_ptr<BatchReader>> TrainBench::NewReader(uint32_t pass) const {
  BatchReaderOptions reading;
  reading.batch_rows = plan_.job.data().batch();
  reading.pool = pool_;
  reading.shuffle = true;
  reading.seed = 1;
  return BatchReader::Create(source_.get(), &model_->compiler(), reading, {pass, 0, 0});
}

absl::Status TrainBench::Read(const std::function<void(const Batch&)>& fn) const {
  ASSIGN_OR_RETURN(std::unique_ptr<BatchReader> reader, NewReader(0));
  Batch batch;
  while (true) {
    const absl::Status status = reader->Next(&batch);
    if (absl::IsOutOfRange(status)) return absl::OkStatus();
    RETURN_IF_ERROR(status);
    fn(batch);
  }
}

absl::StatusOr<TrainPass> TrainBench::Pass(int64_t warm) {
  ASSIGN_OR_RETURN(std::unique_ptr<BatchReader> reader, NewReader(passes_++));
  TrainPass pass;
  StageUses before = ReadStages();
  double start = Now();
  RETURN_IF_ERROR(pipeline_->Run(
      reader.get(), step_, [](int64_t) { return 1.0; },
      [&](const StepReport& r) {
        pass.samples += r.batch->rows;
        step_ = r.step + 1;
        if (warm > 0 && pass.samples >= warm) {
          warm = pass.samples = 0;
          before = ReadStages();
          start = Now();
        }
        return true;
      }));
  pass.seconds = Now() - start;
  pass.stages = UseBetween(before, ReadStages());
  return pass;
}

absl::StatusOr<double> TrainBench::Auc() {
  ASSIGN_OR_RETURN(
      std::unique_ptr<SampleSource> source,
      SampleSource::Open({plan_.job.data().eval().begin(), plan_.job.data().eval().end()}));
  ASSIGN_OR_RETURN(
      std::vector<EvalMetrics> metrics,
      Evaluate(model_.get(), *source, {.batch_rows = plan_.job.data().batch()}, pool_));
  return metrics[0].auc;
}

absl::Status BenchTrain(bool quick) {
  ASSIGN_OR_RETURN(std::set<std::string> cases,
                   CasesAsked("train", {"models", "requests", "rows", "cold"}));
  std::string dir =
      absl::StrCat(std::filesystem::temp_directory_path().string(), "/starling-bench.", getpid());
  RETURN_IF_ERROR(MakeDirs(dir));
  absl::Status status = RunCases(dir, quick, cases);
  RemoveAll(dir).IgnoreError();
  return status;
}

}  // namespace starling
