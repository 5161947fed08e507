// bench read, requests: what it brings that rows which share a user hold the
// user's features once, through reading, lookup and pooling.
#include <ctime>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/status.h"
#include "dense_net/device.h"
#include "sample_io/generator.h"
#include "sample_io/grow.h"
#include "sample_io/planted_model.h"
#include "tools/bench.h"
#include "tools/bench_read.h"
#include "tools/bench_store.h"

namespace starling {
namespace {

constexpr int kImpressions = 10;
// Some of the columns of flat files.
constexpr char kColumns[] = R"(
name: columns
data: {train: "%1$s", label: click, batch: 4096}
features:
  - {id: [C%2$d..C%3$d], dim: 16}
  - {raw: [I%4$d..I%5$d], norm: log1p}
model: {fm: {}}
train: {dir: "%1$s/run"}
)";
constexpr double kAll = PlantedModel::kIds + PlantedModel::kNumbers;
constexpr double kUser = PlantedModel::kUserIds + PlantedModel::kUserNumbers;
// How much less there is to do if every feature of an entry costs the same.
constexpr double kFewer = kAll / (kAll - kUser + kUser / kImpressions);

double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Looks up the ids of a batch and pools every slot on its own axis.
class LookupAndPool {
 public:
  explicit LookupAndPool(EmbeddingTable* table) : table_(table) {}

  absl::Status Create(const Batch& batch) {
    const TableIds& ids = batch.tables[0];
    rows_.resize(ids.ids.size() * table_->width());
    return table_->LookupOrCreate(ids.ids, ids.counts, {}, rows_);
  }
  absl::Status operator()(const Batch& batch) {
    const TableIds& ids = batch.tables[0];
    const int dim = table_->width();
    rows_.resize(ids.ids.size() * dim);
    const double start = ThreadSeconds();
    RETURN_IF_ERROR(table_->Lookup(ids.ids, rows_));
    lookup_seconds_ += ThreadSeconds() - start;
    for (const Slot& slot : ids.slots) {
      const SlotView view = {.offsets = slot.offsets.data(),
                             .index = slot.index.data(),
                             .weights = slot.weights.empty() ? nullptr : slot.weights.data(),
                             .entry_of_row = nullptr,
                             .rows = rows_.data(),
                             .width = dim};
      const int entries = static_cast<int>(slot.offsets.size()) - 1;
      GrowTo(static_cast<size_t>(entries) * dim, &pooled_);
      CpuDevice().kernels().pool(view, 0, entries, 0, dim, pooled_.data(), dim);
    }
    return absl::OkStatus();
  }
  double lookup_seconds() const { return lookup_seconds_; }

 private:
  EmbeddingTable* const table_;
  std::vector<float> rows_, pooled_;
  double lookup_seconds_ = 0;
};

// One form, over all passes. Seconds are those of the reader's thread and the caller's.
struct Form {
  std::vector<double> rates, lookup_ns;  // Rows a second, and a row's.
  double unique_ids = 0;                 // A row's.

  absl::Status Pass(const ReadBench& bench, const ReadData& data, EmbeddingTable* table) {
    LookupAndPool use(table);
    ASSIGN_OR_RETURN(ReadPass pass, ReadAll(bench, data, 1, std::ref(use)));
    const double rows = static_cast<double>(pass.rows);
    rates.push_back(rows / pass.cpu_seconds);
    lookup_ns.push_back(1e9 * use.lookup_seconds() / rows);
    unique_ids = static_cast<double>(pass.unique_ids) / rows;
    return absl::OkStatus();
  }
  double ns() const { return 1e9 / Median(rates); }  // Of a row.
};

// What this reader needs for the two halves of requests: the impressions' columns of all rows, and
// the users', a row a request. Each is read from flat files, looked up and pooled by itself, in
// batches of as many rows or requests. Joining them can only add to it; a faster reader would
// lower it, so it bounds the ratio of today's code, where kFewer bounds that of any.
struct Parts {
  ReadData row_data, user_data;
  Form rows, users;

  absl::Status Open(const ReadBench& bench, const std::string& flat) {
    GeneratorOptions options;
    options.out = JoinPath(bench.dir, "users");
    options.rows = bench.rows / kImpressions;
    options.eval_rows = 1000;
    RETURN_IF_ERROR(Generate(options).status());
    const std::string users = JoinPath(options.out, "train");
    ASSIGN_OR_RETURN(
        user_data, OpenConfigured(users, absl::StrFormat(kColumns, users, 1, PlantedModel::kUserIds,
                                                         1, PlantedModel::kUserNumbers)));
    ASSIGN_OR_RETURN(
        row_data,
        OpenConfigured(
            flat, absl::StrFormat(kColumns, flat, PlantedModel::kUserIds + 1, PlantedModel::kIds,
                                  PlantedModel::kUserNumbers + 1, PlantedModel::kNumbers)));
    return absl::OkStatus();
  }
  double ns() const { return rows.ns() + users.ns() / kImpressions; }  // Of a row.
};

}  // namespace

absl::Status BenchReadRequests(const ReadBench& bench) {
  GeneratorOptions options;
  options.out = JoinPath(bench.dir, "requests");
  options.rows = bench.rows;
  options.eval_rows = 1000;
  options.impressions = kImpressions;
  RETURN_IF_ERROR(Generate(options).status());
  ASSIGN_OR_RETURN(ReadData flat, OpenReadData(JoinPath(options.out, "train")));
  ASSIGN_OR_RETURN(ReadData nested, OpenReadData(JoinPath(options.out, "train_nested"), "", "user.",
                                                 "impressions."));
  ASSIGN_OR_RETURN(std::unique_ptr<EmbeddingTable> table,
                   EmbeddingTable::Open(StoreSpec(Rule::kAdagrad), {}));
  Parts parts;
  RETURN_IF_ERROR(parts.Open(bench, JoinPath(options.out, "train")));
  LookupAndPool use(table.get());
  for (const ReadData* data : {&flat, &parts.user_data}) {
    RETURN_IF_ERROR(
        ReadAll(bench, *data, 1, [&](const Batch& batch) { return use.Create(batch); }).status());
  }

  ReadBench requests = bench;  // A batch counts requests there; it holds as many rows.
  requests.batch_rows = bench.batch_rows / kImpressions;
  Form one, many;
  for (int i = 0; i < bench.alternations; ++i) {
    RETURN_IF_ERROR(one.Pass(bench, flat, table.get()));
    RETURN_IF_ERROR(many.Pass(requests, nested, table.get()));
    RETURN_IF_ERROR(parts.rows.Pass(bench, parts.row_data, table.get()));
    RETURN_IF_ERROR(parts.users.Pass(requests, parts.user_data, table.get()));
  }
  const std::string shape = absl::StrCat(kImpressions, " rows a request, ", kUser, " of ", kAll,
                                         " features the user's, read + lookup + pooling");
  Report({"read.requests", shape, "rows a CPU second", "the same rows, flat", many.rates, one.rates,
          one.ns() / parts.ns()});
  ReportFigures("read.requests.cost", shape,
                {{"ns_a_row", many.ns()},
                 {"ns_a_row_flat", one.ns()},
                 {"ns_a_row_of_impressions_alone", parts.rows.ns()},
                 {"ns_a_row_of_users_alone", parts.users.ns() / kImpressions},
                 {"lookup_ns_a_row", Median(many.lookup_ns)},
                 {"lookup_ns_a_row_flat", Median(one.lookup_ns)},
                 {"unique_ids_a_row", many.unique_ids},
                 {"unique_ids_a_row_flat", one.unique_ids},
                 {"possible_by_features", kFewer}});
  return absl::OkStatus();
}

}  // namespace starling
