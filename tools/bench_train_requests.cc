// bench train, requests: training on rows that share a user, held once a request, by
// training on the same rows flat; and how much that could bring.
//
// The bound. By features: two thirds are the user's, so of reading,
// compiling, pull and push a request of ten rows needs (1/3 + 2/3 / 10) of what ten flat rows need.
// Of the products, those of the user's columns in layers that read the embedding itself are needed
// once a request. Either share is weighed by the processor's time that flat training spends on
// it. A model without products spends its compute on pooling, which shrinks as lookups do.
// By parts: a feature that ten rows repeat costs less in flat files than one that they do not. So
// the same model is trained on the impressions' columns of all rows alone, and on the users', a row
// a request, alone. Today's code cannot take less than both, but for the tenth of the layers above
// that is counted twice: it is the bound of models with little above their features alone.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/status.h"
#include "sample_io/generator.h"
#include "tools/bench.h"
#include "tools/bench_train.h"

namespace starling {
namespace {

constexpr int kImpressions = 10, kDim = 16, kUserIds = 8, kItemIds = 3;
constexpr double kUserShare = 2.0 / 3;  // 8 ids of the user; 3 ids and a number of the impression.
constexpr double kSparseLeft = 1 - kUserShare + kUserShare / kImpressions;

constexpr char kFlat[] = R"(
name: flat
data: {train: "%1$s/%3$s/train", eval: "%1$s/%3$s/eval", label: click, event_time: ts, batch: 4000}
features:
  - {id: [%4$s], dim: 16, table: {name: all, memory: 4GiB}}
  - {raw: I13, norm: log1p}
model: %2$s
optimizer: {sparse: {adagrad: {lr: 0.02}}, dense: {adam: {lr: 0.001}}}
train: {dir: "%1$s/run"}
)";
constexpr char kNested[] = R"(
name: nested
data: {train: "%1$s/data/train_nested", eval: "%1$s/data/eval_nested", label: impressions.click,
       event_time: impressions.ts, batch: 400}
features:
  - {id: [user.C16..user.C23, impressions.C24..impressions.C26], dim: 16, table: {name: all, memory: 4GiB}}
  - {raw: impressions.I13, norm: log1p}
model: %2$s
optimizer: {sparse: {adagrad: {lr: 0.02}}, dense: {adam: {lr: 0.001}}}
train: {dir: "%1$s/run"}
)";

struct Model {
  const char* name;
  const char* config;
  int first_width;  // Columns of products with the embedding itself.
  // Most of the time goes to features: more rows, so that the first and last steps of a pass hardly
  // count, and a bound by parts.
  bool sparse;
};
constexpr Model kModels[] = {
    {"fm", "{fm: {}}", 0, true},
    {"deepfm 400x3", "{deepfm: {hidden: [400, 400, 400]}}", 400, false},
    {"deepfm 64-32", "{deepfm: {hidden: [64, 32]}}", 64, true},
    {"dcnv2 400x3", "{dcnv2: {hidden: [400, 400, 400]}}", 400 + (kUserIds + kItemIds) * kDim + 1,
     false},  // The first cross layer, too.
};

// What requests could bring at most, by where a flat pass spent its time.
double Bound(const Model& model, const Network& network, const TrainPass& flat) {
  double all = 0;
  for (const StageUse& use : flat.stages) all += use.busy;
  const double compute = flat.stages[static_cast<int>(Stage::kCompute)].busy;
  const double users = 6.0 * kUserIds * kDim * model.first_width;  // Of a row's operations.
  const double left = model.first_width == 0
                          ? kSparseLeft
                          : 1 - users / network.gemm_flops_train() * (1 - 1.0 / kImpressions);
  return all / ((all - compute) * kSparseLeft + compute * left);
}

absl::Status RunModel(const std::string& dir, const Model& model, int alternations) {
  ThreadPool pool(0);
  auto of_columns = [&](const char* name, const char* data, const char* ids) {
    return TrainBench::Create(absl::StrFormat(kFlat, dir, model.config, data, ids),
                              JoinPath(dir, name), &pool);
  };
  ASSIGN_OR_RETURN(std::unique_ptr<TrainBench> flat, of_columns("flat", "data", "C16..C26"));
  ASSIGN_OR_RETURN(std::unique_ptr<TrainBench> rows, of_columns("rows", "data", "C24..C26"));
  ASSIGN_OR_RETURN(std::unique_ptr<TrainBench> users, of_columns("users", "users", "C16..C23"));
  ASSIGN_OR_RETURN(std::unique_ptr<TrainBench> nested,
                   TrainBench::Create(absl::StrFormat(kNested, dir, model.config),
                                      JoinPath(dir, "nested"), &pool));
  for (TrainBench* one : {flat.get(), nested.get(), rows.get(), users.get()}) {
    RETURN_IF_ERROR(one->Pass().status());  // Rows are made here.
  }
  ASSIGN_OR_RETURN(const double flat_auc, flat->Auc());
  ASSIGN_OR_RETURN(const double nested_auc, nested->Auc());
  BenchResult result{"train.requests",
                     absl::StrCat(model.name, ", ", kImpressions,
                                  " rows a request, two thirds of the features the user's"),
                     "samples/s",
                     "the same rows, flat",
                     {},
                     {},
                     0};
  std::vector<double> by_features, by_parts;
  for (int i = 0; i < alternations; ++i) {
    ASSIGN_OR_RETURN(TrainPass one, flat->Pass());
    ASSIGN_OR_RETURN(TrainPass many, nested->Pass());
    result.reference_values.push_back(static_cast<double>(one.samples) / one.seconds);
    result.values.push_back(static_cast<double>(many.samples) / many.seconds);
    by_features.push_back(Bound(model, flat->network(), one));
    ASSIGN_OR_RETURN(TrainPass of_rows, rows->Pass());
    ASSIGN_OR_RETURN(TrainPass of_users, users->Pass());
    by_parts.push_back(one.seconds / (of_rows.seconds + of_users.seconds));
  }
  result.ratio_bound = Median(model.sparse ? by_parts : by_features);
  Report(result);
  ReportFigures("train.requests.possible", model.name,
                {{"by_features", Median(by_features)}, {"by_parts", Median(by_parts)}});
  ReportFigures("train.requests.auc", absl::StrCat(model.name, ", after one pass"),
                {{"requests", nested_auc}, {"flat", flat_auc}});
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchTrainRequests(const std::string& dir, bool quick) {
  for (const Model& model : kModels) {
    GeneratorOptions data;
    data.rows = quick ? 40'000 : model.sparse ? 960'000 : 240'000;
    data.eval_rows = quick ? 10'000 : 100'000;
    data.overwrite = true;  // That of other cases.
    data.out = JoinPath(dir, "data");
    data.impressions = kImpressions;
    RETURN_IF_ERROR(Generate(data).status());
    data.out = JoinPath(dir, "users");
    data.impressions = 1;
    data.rows /= kImpressions;
    RETURN_IF_ERROR(Generate(data).status());
    RETURN_IF_ERROR(RunModel(dir, model, quick ? 2 : 7));
  }
  return absl::OkStatus();
}

}  // namespace starling
