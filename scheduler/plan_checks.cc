#include "scheduler/plan_checks.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/optimizer.h"
#include "base/status.h"
#include "dense_net/device.h"
#include "dense_net/forward.h"
#include "sample_io/predicate.h"

namespace starling {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr char kNameChars[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";

// Collects the first thing wrong; later checks then do nothing.
class Checker {
 public:
  explicit Checker(const SourceMap& map) : map_(map) {}

  void Range(const std::string& path, double value, double least, double most) {
    if (value >= least && value <= most) return;
    Fail(path, most == kInf ? absl::StrCat("must be at least ", least)
                            : absl::StrCat("must be in ", least, "..", most));
  }
  void AtLeast(const std::string& path, double value, double least) {
    Range(path, value, least, kInf);
  }
  void Above(const std::string& path, double value, double bound) {
    if (!(value > bound)) Fail(path, absl::StrCat("must be more than ", bound));
  }
  // least <= value < bound
  void Below(const std::string& path, double value, double least, double bound) {
    if (value >= least && value < bound) return;
    Fail(path, absl::StrCat("must be at least ", least, " and less than ", bound));
  }
  // A name that becomes part of file names and URLs.
  void Name(const std::string& path, const std::string& name) {
    if (IsName(name)) return;
    Fail(path, "must be letters, digits, `_`, `-` and `.`, and not begin with `.`");
  }
  void Require(bool ok, const std::string& path, const std::string& message) {
    if (!ok && status_.ok()) status_ = map_.Error(path, message);
  }
  // `message` without its subject, which is the last key of the path.
  void Fail(const std::string& path, const std::string& message) {
    std::string key = path.substr(path.rfind('.') + 1);
    Require(false, path, absl::StrCat(key, " ", message));
  }
  const absl::Status& status() const { return status_; }

 private:
  const SourceMap& map_;
  absl::Status status_;
};

void CheckData(const DataOptions& data, Checker* c) {
  c->Range("data.batch", data.batch(), 1, 1 << 22);
  c->Range("data.bad_rows_max", data.bad_rows_max(), 0, 1);
  c->AtLeast("data.read_memory", static_cast<double>(data.read_memory()), 16 << 20);
  for (int i = 0; i < data.label_size(); ++i) {
    const std::string& label = data.label(i);
    const std::string path = absl::StrCat("data.label[", i, "]");
    c->Require(!label.empty(), path, "label must name a column");
    c->Require(std::find(data.label().begin(), data.label().begin() + i, label) ==
                   data.label().begin() + i,
               path, absl::StrCat("column \"", label, "\" is listed twice"));
    c->Require(data.event_time() != label, "data.event_time",
               absl::StrCat("column \"", label, "\" is the label already"));
  }
  c->Require(data.user_size() == 0 || data.has_request(), "data.user",
             "user columns are shared by the rows of a request: name its column in data.request");
  c->Require(!data.has_request() || data.user_size() > 0, "data.request",
             "rows of a request share nothing: list the user's columns in data.user");
  if (data.has_where()) {
    const absl::Status parsed = Predicate::Parse(data.where()).status();
    c->Require(parsed.ok(), "data.where", std::string(parsed.message()));
  }
  c->Range("data.sample.rate", data.sample().rate(), 1e-9, 16);
}

void CheckBlock(const FeatureBlock& block, const std::string& path, bool event_time, Checker* c) {
  c->Range(path + ".dim", block.dim(), 1, 512);
  const TableOptions& table = block.table();
  const std::string at = path + ".table";
  if (table.has_name()) c->Name(at + ".name", table.name());
  c->AtLeast(at + ".memory", static_cast<double>(table.memory()), 1);
  c->AtLeast(at + ".rows_expected", static_cast<double>(table.rows_expected()), 0);
  c->AtLeast(at + ".init", table.init(), 0);
  if (table.has_multi_hash()) {
    const int64_t rows = table.multi_hash().rows();
    c->Require(rows >= 2 && rows <= 1 << 28, at + ".multi_hash.rows",
               "rows must be in 2..268435456");
  }
  if (table.admit().has_count()) c->Range(at + ".admit.count", table.admit().count(), 1, 65535);
  if (table.admit().has_exact_count()) {
    c->Range(at + ".admit.exact_count", table.admit().exact_count(), 1, 65535);
  }
  if (table.admit().has_probability()) {
    c->Above(at + ".admit.probability", table.admit().probability(), 0);
    c->Range(at + ".admit.probability", table.admit().probability(), 0, 1);
  }
  if (table.evict().has_ttl()) {
    c->Above(at + ".evict.ttl", table.evict().ttl(), 0);
    c->Require(event_time, at + ".evict.ttl",
               "rows age by event time, and there is none: set data.event_time, or remove ttl");
  }
}

void CheckModel(const ModelOptions& model, Checker* c) {
  c->Require(model.kind_case() != ModelOptions::KIND_NOT_SET, "model",
             absl::StrCat("no model: give one of ", ModelNames()));
  // The name of an output.
  if (model.has_esmm()) c->Name("model.esmm.cvr", model.esmm().cvr());
  const std::optional<BadModelOption> bad = FindBadOption(model);
  if (!bad) return;
  const std::string path = absl::StrCat("model.", ModelName(model));
  c->Require(false, bad->key.empty() ? path : absl::StrCat(path, ".", bad->key), bad->message);
}

void CheckOptimizer(const OptimizerOptions& options, const std::string& path, Checker* c) {
  // A block without a rule gets one later: its common keys are checked with any.
  OptimizerOptions ruled = options;
  if (ruled.rule_case() == OptimizerOptions::RULE_NOT_SET) ruled.mutable_sgd();
  if (auto bad = FindBadOption(ruled)) c->Fail(absl::StrCat(path, ".", bad->key), bad->message);
}

void CheckSchedule(const ScheduleOptions& schedule, bool eval, Checker* c) {
  const std::string path = "train.schedule";
  c->AtLeast(path + ".warmup_steps", schedule.warmup_steps(), 0);
  if (schedule.has_cosine()) {
    c->AtLeast(path + ".cosine.steps", schedule.cosine().steps(), 1);
    c->Range(path + ".cosine.floor", schedule.cosine().floor(), 0, 1);
  }
  if (schedule.has_step()) {
    c->AtLeast(path + ".step.every", schedule.step().every(), 1);
    c->Above(path + ".step.factor", schedule.step().factor(), 0);
  }
  if (schedule.has_plateau()) {
    c->Above(path + ".plateau.factor", schedule.plateau().factor(), 0);
    c->Range(path + ".plateau.floor", schedule.plateau().floor(), 0, 1);
    c->Require(eval, path + ".plateau", "plateau looks at evaluations: set data.eval");
  }
}

void CheckDevices(const TrainOptions& train, const DataOptions& data, Checker* c) {
  const auto& devices = train.devices();
  for (int i = 0; i < devices.size(); ++i) {
    const std::string path = absl::StrCat("train.devices[", i, "]");
    const absl::Status opened = OpenDevice(devices[i]).status();
    c->Require(opened.ok(), path, std::string(opened.message()));
    c->Require(std::find(devices.begin(), devices.begin() + i, devices[i]) == devices.begin() + i,
               path, absl::StrCat("device \"", devices[i], "\" is listed twice"));
  }
  const int tiles = (data.batch() - 1) / std::max(1, train.tile()) + 1;
  c->Require(devices.size() <= tiles, "train.devices",
             absl::StrCat(devices.size(), " devices, but a batch has ", tiles, " tile(s) of ",
                          train.tile(),
                          " rows for them: raise data.batch, lower train.tile, or list fewer"));
}

void CheckTrain(const TrainOptions& train, const DataOptions& data, Checker* c) {
  const bool eval = data.eval_size() > 0;
  c->AtLeast("train.epochs", train.epochs(), 1);
  c->Range("train.threads", train.threads(), 0, 1024);
  c->Range("train.lanes", train.lanes(), 1, 1024);
  c->Range("train.tile", train.tile(), 1, 1 << 20);
  c->Range("train.staleness", train.staleness(), 0, 1024);
  c->AtLeast("train.clip_norm", train.clip_norm(), 0);
  c->AtLeast("train.checkpoint.every_steps", train.checkpoint().every_steps(), 0);
  c->AtLeast("train.checkpoint.keep", train.checkpoint().keep(), 1);
  c->Above("train.eval_every", train.eval_every(), 0);
  c->Range("train.metrics_port", train.metrics_port(), 0, 65535);
  CheckDevices(train, data, c);
  CheckSchedule(train.schedule(), eval, c);
  if (!train.has_early_stop()) return;
  c->Require(eval, "train.early_stop", "early_stop looks at evaluations: set data.eval");
  c->AtLeast("train.early_stop.patience", train.early_stop().patience(), 1);
  c->AtLeast("train.early_stop.min_delta", train.early_stop().min_delta(), 0);
  c->Require(train.early_stop().metric() != EarlyStopOptions::GAUC || data.has_group(),
             "train.early_stop.metric", "gauc needs groups: set data.group");
}

}  // namespace

bool IsName(const std::string& name) {
  return !name.empty() && name[0] != '.' && name.find_first_not_of(kNameChars) == std::string::npos;
}

std::string ModelName(const ModelOptions& model) {
  const auto* kind = model.GetDescriptor()->FindOneofByName("kind");
  const auto* field = model.GetReflection()->GetOneofFieldDescriptor(model, kind);
  return field == nullptr ? "" : field->name();
}

absl::Status CheckShared(const TrainOptions& train, const GraphSpec& graph, const SourceMap& map) {
  if (train.devices_size() < 2) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::unique_ptr<Network> network, Network::Create(graph, {}));
  const std::string op = network->UnsharedOp();
  if (op.empty()) return absl::OkStatus();
  return map.Error("train.devices",
                   absl::StrCat("loss \"", op,
                                "\" compares rows of the whole batch, which devices "
                                "cannot part: train on one device, or choose another loss"));
}

absl::Status CheckValues(const Job& job, const SourceMap& map) {
  Checker c(map);
  c.Name("name", job.name());
  CheckData(job.data(), &c);
  for (int i = 0; i < job.features_size(); ++i) {
    CheckBlock(job.features(i), absl::StrCat("features[", i, "]"), job.data().has_event_time(), &c);
  }
  CheckModel(job.model(), &c);
  CheckOptimizer(job.optimizer().sparse(), "optimizer.sparse", &c);
  CheckOptimizer(job.optimizer().linear(), "optimizer.linear", &c);
  CheckOptimizer(job.optimizer().dense(), "optimizer.dense", &c);
  CheckTrain(job.train(), job.data(), &c);
  return c.status();
}

}  // namespace starling
