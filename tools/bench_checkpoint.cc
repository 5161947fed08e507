// bench checkpoint: what a background checkpoint costs training, how large
// increments are, and how fast a restore is beside reading the same files.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <set>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/big_memory.h"
#include "base/file.h"
#include "base/random.h"
#include "base/status.h"
#include "sample_io/generator.h"
#include "scheduler/checkpointer.h"
#include "scheduler/trainer.h"
#include "tools/bench.h"
#include "tools/bench_store.h"
#include "tools/flags.h"

DECLARE_int64(table_rows);

namespace starling {
namespace {

constexpr char kConfig[] = R"(
name: bench
data: {train: "%s/data/train", label: click, event_time: ts, batch: 2048}
features:
  - {id: [C1..C26], dim: 16, table: {memory: 8GiB}}
  - {raw: [I1..I13], norm: log1p}
model: {deepfm: {hidden: [128, 64]}}
optimizer: {sparse: {adagrad: {lr: 0.02}}, dense: {adam: {lr: 0.001}}}
train: {dir: "%s/run"}
)";

double Now() { return absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()); }

double Max(const std::vector<double>& values) {
  return *std::max_element(values.begin(), values.end());
}

int64_t BytesOf(const std::vector<FileSetEntry>& files) {
  int64_t bytes = 0;
  for (const FileSetEntry& file : files) bytes += file.bytes;
  return bytes;
}

// So that the next read comes from the disk.
void DropFromCache(const Checkpoint& checkpoint) {
  for (const StoredCut& cut : checkpoint.chain) {
    for (const FileSetEntry& file : cut.files) {
      const int fd = ::open(JoinPath(cut.dir, file.name).c_str(), O_RDONLY);
      if (fd < 0) continue;
      ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
      ::close(fd);
    }
  }
}

// How long it takes to get so much memory from the machine, by all threads.
double FreshMemorySeconds(int64_t bytes, ThreadPool* pool) {
  constexpr int64_t kPart = 2 << 20, kPage = 4096;
  const std::unique_ptr<char, FreeBig> memory(static_cast<char*>(AllocateBig(bytes)));
  const double start = Now();
  pool->ParallelFor(static_cast<int>(bytes / kPart), [&](int part) {
    for (int64_t at = 0; at < kPart; at += kPage) memory.get()[part * kPart + at] = 1;
  });
  return Now() - start;
}

// Notes the longest call of the client behind it.
class TimedClient final : public ParameterClient {
 public:
  explicit TimedClient(ParameterClient* client) : client_(client) {}
  void Pull(PullMode mode, std::span<const TableKeys> tables,
            std::span<const std::span<float>> weights, std::span<float> dense,
            ClientDone done) override {
    client_->Pull(mode, tables, weights, dense, Timed(std::move(done)));
  }
  void Push(const BatchName& name, float lr_scale, std::span<const TableKeys> tables,
            std::span<const std::span<const float>> grads, std::span<const float> dense_grads,
            ClientDone done) override {
    client_->Push(name, lr_scale, tables, grads, dense_grads, Timed(std::move(done)));
  }
  void Prefetch(std::span<const TableKeys> tables) override { client_->Prefetch(tables); }
  // In seconds, since the last time it was asked for.
  double TakeLongest() { return longest_.exchange(0); }

 private:
  ClientDone Timed(ClientDone done) {
    return [this, start = Now(), done = std::move(done)](absl::Status status) {
      const double took = Now() - start;
      for (double seen = longest_; took > seen && !longest_.compare_exchange_weak(seen, took);) {
      }
      done(std::move(status));
    };
  }

  ParameterClient* const client_;
  std::atomic<double> longest_{0};
};

class CheckpointBench {
 public:
  CheckpointBench(const std::string& dir, bool quick) : dir_(dir), quick_(quick), pool_(0) {}

  absl::Status Run(const std::set<std::string>& cases) {
    RETURN_IF_ERROR(Open());
    if (cases.contains("cost")) RETURN_IF_ERROR(Cost());
    if (cases.contains("increments")) RETURN_IF_ERROR(Increments());
    if (cases.contains("restore")) RETURN_IF_ERROR(Restore());
    return absl::OkStatus();
  }

 private:
  std::string Case() const {
    return absl::StrFormat("deepfm 128-64, %.1f M rows x 17, adagrad, batch 2048", rows_ / 1e6);
  }

  absl::Status Open() {
    GeneratorOptions data;
    data.out = JoinPath(dir_, "data");
    data.rows = quick_ ? 40'000 : 400'000;
    data.eval_rows = 1000;
    RETURN_IF_ERROR(Generate(data).status());
    Job job;
    SourceMap map;
    RETURN_IF_ERROR(ParseYaml(absl::StrFormat(kConfig, dir_, dir_), "bench.yaml", {}, &job, &map));
    ASSIGN_OR_RETURN(plan_, MakePlan(job, map));
    ASSIGN_OR_RETURN(source_, SampleSource::Open({JoinPath(dir_, "data/train")}));
    ASSIGN_OR_RETURN(model_, NewModel("scratch"));
    client_ = std::make_unique<TimedClient>(&model_->client());
    pipeline_ = std::make_unique<StepPipeline>(&model_->network(), client_.get(), &pool_,
                                               PipelineOptions());
    const int64_t rows = quick_ ? 200'000 : 4'000'000;
    RETURN_IF_ERROR(AddRows(FLAGS_table_rows == 0 ? rows : FLAGS_table_rows));
    RETURN_IF_ERROR(Train(0, nullptr).status());  // The data's own rows are made here.
    rows_ = static_cast<double>(model_->store().table(0).rows());
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<LocalModel>> NewModel(const std::string& scratch) {
    return LocalModel::Create(SpecOf(plan_), NetworkOptionsOf(plan_.job), JoinPath(dir_, scratch),
                              &pool_);
  }

  // Rows that the data do not touch: a checkpoint holds them all the same.
  absl::Status AddRows(int64_t rows) {
    EmbeddingTable& table = model_->store().table(0);
    std::vector<uint64_t> ids(100'000);
    std::vector<float> weights(ids.size() * table.width());
    for (int64_t done = 0; done < rows; done += static_cast<int64_t>(ids.size())) {
      for (size_t i = 0; i < ids.size(); ++i) ids[i] = Mix64(0x1234567 + done + i);
      RETURN_IF_ERROR(table.LookupOrCreate(ids, {}, {}, weights));
    }
    return absl::OkStatus();
  }

  struct Pass {
    double seconds = 0;
    int64_t samples = 0;
    double step_max = 0;   // Longest time from one step's end to the next one's.
    double call_max = 0;   // Longest pull or push.
    double start_max = 0;  // Longest time that the pipeline stood still for a cut.
  };
  // Trains for `seconds`, or until the checkpoint that it begins is complete.
  absl::StatusOr<Pass> Train(double seconds, Checkpointer* checkpointer) {
    Pass pass;
    bool begun = false, ended = false;
    const double start = Now();
    client_->TakeLongest();
    double last = start;
    for (uint32_t n = 0; !ended; ++n) {
      BatchReaderOptions reading;
      reading.job = ++job_;
      reading.batch_rows = plan_.job.data().batch();
      reading.pool = &pool_;
      ASSIGN_OR_RETURN(std::unique_ptr<BatchReader> reader,
                       BatchReader::Create(source_.get(), &model_->compiler(), reading, {}));
      RETURN_IF_ERROR(pipeline_->Run(
          reader.get(), step_, [](int64_t) { return 1.0; },
          [&](const StepReport& r) {
            step_ = r.step + 1;
            pass.samples += r.batch->rows;
            if (touched_ != nullptr) {
              for (const TableKeys& keys : KeysOf(*r.batch))
                touched_->insert(keys.ids.begin(), keys.ids.end());
            }
            pass.step_max = std::max(pass.step_max, Now() - last);
            last = Now();
            if (checkpointer != nullptr) return begun && checkpointer->writing();
            return seconds == 0 || last - start < seconds;
          },
          [&] {
            if (checkpointer == nullptr || begun) {
              ended = true;
              return false;
            }
            begun = true;
            const double from = Now();
            status_ = Begin(checkpointer);
            pass.start_max = Now() - from;
            return status_.ok();
          }));
      RETURN_IF_ERROR(status_);
      ended |= seconds == 0 && checkpointer == nullptr;
    }
    pass.seconds = Now() - start;
    pass.call_max = client_->TakeLongest();
    return pass;
  }

  absl::Status Begin(Checkpointer* checkpointer) {
    CheckpointInfo info = InfoOf(plan_, 1);
    info.mutable_state()->set_step(step_);
    return checkpointer->Start(info, {.keep = 2});
  }

  absl::Status Cost() {
    Checkpointer checkpointer({JoinPath(dir_, "full"), 1, plan_.job.train().checkpoint().pace()},
                              &model_->store());
    BenchResult rate{"checkpoint.throughput",
                     absl::StrCat(Case(), ", while a full checkpoint is written"),
                     "samples/s",
                     "the same without",
                     {},
                     {},
                     1};
    std::vector<double> seconds, cost, stood, before, during, call_before, call_during;
    for (int i = 0; i < (quick_ ? 2 : 7); ++i) {
      ASSIGN_OR_RETURN(Pass without, Train(quick_ ? 1 : 5, nullptr));
      ASSIGN_OR_RETURN(Pass with, Train(0, &checkpointer));
      RETURN_IF_ERROR(checkpointer.Wait());
      rate.reference_values.push_back(without.samples / without.seconds);
      rate.values.push_back(with.samples / with.seconds);
      seconds.push_back(with.seconds);
      cost.push_back(with.seconds * (1 - rate.values.back() / rate.reference_values.back()) / 600);
      stood.push_back(with.start_max * 1e3);
      before.push_back(without.step_max * 1e3);
      during.push_back(with.step_max * 1e3);
      call_before.push_back(without.call_max * 1e3);
      call_during.push_back(with.call_max * 1e3);
    }
    Report(rate);
    ASSIGN_OR_RETURN(Checkpoint checkpoint, OpenCheckpoint(checkpointer.newest()));
    ReportFigures("checkpoint.cost", Case(),
                  {{"seconds", Median(seconds)},
                   {"bytes", static_cast<double>(BytesOf(checkpoint.chain.back().files))},
                   {"share_of_time_at_10_minutes", Median(cost)},
                   {"cut_ms", Median(stood)},
                   {"cut_ms_worst", Max(stood)},
                   {"longest_step_ms_without", Median(before)},
                   {"longest_step_ms_during", Median(during)},
                   {"longest_call_ms_without", Median(call_before)},
                   {"longest_call_ms_during", Median(call_during)},
                   {"longest_call_ms_without_worst", Max(call_before)},
                   {"longest_call_ms_during_worst", Max(call_during)}});
    return absl::OkStatus();
  }

  absl::Status Increments() {
    Checkpointer checkpointer({JoinPath(dir_, "chain"), 100, 0}, &model_->store());
    for (double seconds : {0.0, 0.2, 1.0, 4.0}) {
      absl::flat_hash_set<uint64_t> touched;
      touched_ = &touched;
      if (seconds > 0) RETURN_IF_ERROR(Train(seconds, nullptr).status());
      touched_ = nullptr;
      RETURN_IF_ERROR(Begin(&checkpointer));
      RETURN_IF_ERROR(checkpointer.Wait());
      ASSIGN_OR_RETURN(Checkpoint checkpoint, OpenCheckpoint(checkpointer.newest()));
      const auto bytes = static_cast<double>(BytesOf(checkpoint.chain.back().files));
      if (seconds == 0) full_bytes_ = bytes;
      ReportFigures("checkpoint.increment",
                    absl::StrFormat("%s, after %.1f s of training", Case(), seconds),
                    {{"bytes", bytes},
                     {"share_of_full", bytes / full_bytes_},
                     {"rows_touched", seconds > 0 ? static_cast<double>(touched.size()) : rows_}});
    }
    return absl::OkStatus();
  }

  absl::Status Restore() {
    const std::string dir = JoinPath(dir_, "restored");
    Checkpointer checkpointer({dir, 1, 0}, &model_->store());
    RETURN_IF_ERROR(Begin(&checkpointer));
    RETURN_IF_ERROR(checkpointer.Wait());
    BenchResult rate{"checkpoint.restore",
                     absl::StrCat(Case(), ", verified and loaded, ", pool_.threads(), " threads"),
                     "bytes/s",
                     "reading the same files, from the disk too",
                     {},
                     {},
                     1};
    std::vector<double> rows_per_s, load_s, disk_s, memory_s;
    ASSIGN_OR_RETURN(Checkpoint checkpoint, OpenCheckpoint(checkpointer.newest()));
    for (int i = 0; i < (quick_ ? 2 : 5); ++i) {
      const auto bytes = static_cast<double>(BytesOf(checkpoint.chain.back().files));
      DropFromCache(checkpoint);
      double start = Now();
      for (const FileSetEntry& file : checkpoint.chain.back().files) {
        RETURN_IF_ERROR(
            ReadFileInPieces(JoinPath(checkpoint.dir, file.name), [](absl::string_view) {}));
      }
      disk_s.push_back(Now() - start);
      rate.reference_values.push_back(bytes / disk_s.back());
      DropFromCache(checkpoint);
      const int64_t resident = ResidentBytes();
      start = Now();
      ASSIGN_OR_RETURN(std::unique_ptr<LocalModel> model, NewModel("scratch2"));
      RETURN_IF_ERROR(
          LatestCheckpoint(dir, [&](const Checkpoint& c) { return model->Load(c); }).status());
      load_s.push_back(Now() - start);
      rate.values.push_back(bytes / load_s.back());
      rows_per_s.push_back(static_cast<double>(model->store().table(0).rows()) / load_s.back());
      const int64_t taken = std::max<int64_t>(0, ResidentBytes() - resident);
      model.reset();
      memory_s.push_back(FreshMemorySeconds(taken, &pool_));
    }
    Report(rate);
    ReportFigures("checkpoint.restore.parts", rate.what,
                  {{"rows_per_s", Median(rows_per_s)},
                   {"seconds", Median(load_s)},
                   {"seconds_reading_the_files", Median(disk_s)},
                   {"seconds_getting_as_much_memory", Median(memory_s)}});
    return absl::OkStatus();
  }

  const std::string dir_;
  const bool quick_;
  ThreadPool pool_;
  Plan plan_;
  std::unique_ptr<SampleSource> source_;
  std::unique_ptr<LocalModel> model_;
  std::unique_ptr<TimedClient> client_;
  std::unique_ptr<StepPipeline> pipeline_;
  int64_t step_ = 0;
  uint64_t job_ = 0;
  double rows_ = 0, full_bytes_ = 0;
  absl::flat_hash_set<uint64_t>* touched_ = nullptr;  // Ids of what is trained on, if wanted.
  absl::Status status_;
};

}  // namespace

absl::Status BenchCheckpoint(bool quick) {
  ASSIGN_OR_RETURN(std::set<std::string> cases,
                   CasesAsked("checkpoint", {"cost", "increments", "restore"}));
  if (FLAGS_table_rows < 0 || FLAGS_table_rows > 26'000'000) {
    return absl::InvalidArgumentError("--table_rows: from 1 to 26000000");
  }
  std::string dir = absl::StrCat(std::filesystem::temp_directory_path().string(),
                                 "/starling-bench-checkpoint.", getpid());
  RETURN_IF_ERROR(MakeDirs(dir));
  absl::Status status = CheckpointBench(dir, quick).Run(cases);
  RemoveAll(dir).IgnoreError();
  return status;
}

}  // namespace starling
