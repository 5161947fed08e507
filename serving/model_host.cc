#include "serving/model_host.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/file.h"
#include "base/metrics.h"
#include "base/status.h"
#include "sample_io/feature_compiler.h"
#include "serving/infer_request.h"

namespace starling {
namespace {

// One row without a value must get a score.
absl::Status TryOn(const Predictor& predictor) {
  ColumnBatch columns;
  columns.rows = 1;
  AddMissingColumns(predictor.bundle().spec().features, &columns);
  ASSIGN_OR_RETURN(std::vector<float> scores, predictor.Predict(columns, nullptr));
  if (!std::isfinite(scores[0])) return absl::DataLossError("scores an empty row with NaN");
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Predictor>> LoadModel(const std::string& dir) {
  ASSIGN_OR_RETURN(std::unique_ptr<Bundle> bundle, Bundle::Load(dir));
  auto predictor = Predictor::Create(std::move(bundle));
  if (!predictor.ok()) return Annotate(predictor.status(), dir);
  if (auto s = TryOn(**predictor); !s.ok()) return Annotate(s, dir);
  return std::shared_ptr<const Predictor>(*std::move(predictor));
}

// Whether the clients of `served` can be answered by `next`.
absl::Status CheckSuccessor(const Predictor& serving, const Predictor& following) {
  const BundleSpec& served = serving.bundle().spec();
  const BundleSpec& next = following.bundle().spec();
  if (served.info.model() != next.info.model()) {
    return absl::FailedPreconditionError(absl::StrCat("is of model \"", next.info.model(), "\"; \"",
                                                      served.info.model(), "\" is being served"));
  }
  const std::vector<std::string> inputs = ColumnsOf(next.features, false);
  for (const std::string& name : ColumnsOf(served.features, false)) {
    if (std::find(inputs.begin(), inputs.end(), name) == inputs.end()) {
      return absl::FailedPreconditionError(
          absl::StrCat("lacks input \"", name, "\" of the version being served"));
    }
  }
  const std::vector<std::string>& outputs = following.outputs();
  for (const std::string& name : serving.outputs()) {
    if (std::find(outputs.begin(), outputs.end(), name) == outputs.end()) {
      return absl::FailedPreconditionError(
          absl::StrCat("lacks output \"", name, "\" of the version being served"));
    }
  }
  return absl::OkStatus();
}

class WatchingHost : public ModelHost {
 public:
  WatchingHost(const std::string& path, double watch_s) : path_(path), watch_s_(watch_s) {}

  ~WatchingHost() override {
    {
      absl::MutexLock lock(&mu_);
      stop_ = true;
    }
    if (watcher_.joinable()) watcher_.join();
  }

  absl::Status Start() {
    ASSIGN_OR_RETURN(std::string newest, FindBundle(path_));
    if (newest == path_) {
      ASSIGN_OR_RETURN(auto model, LoadModel(path_));
      Swap(std::move(model));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(std::vector<uint64_t> versions, ListBundleVersions(path_));
    absl::Status status = TakeUpNewest(versions);
    if (current() == nullptr) return status;
    watcher_ = std::thread([this] { Watch(); });
    return absl::OkStatus();
  }

  std::shared_ptr<const Predictor> current() const override {
    absl::MutexLock lock(&mu_);
    return current_;
  }

 private:
  void Watch() {
    while (!StoppedWithin(absl::Seconds(watch_s_))) {
      auto versions = ListBundleVersions(path_);
      if (versions.ok()) {
        TakeUpNewest(*versions).IgnoreError();
      } else if (versions.status().message() != last_error_) {
        last_error_ = std::string(versions.status().message());
        std::fprintf(stderr, "serve: cannot look for versions: %s\n", last_error_.c_str());
      }
    }
  }

  bool StoppedWithin(absl::Duration time) {
    absl::MutexLock lock(&mu_);
    return mu_.AwaitWithTimeout(absl::Condition(&stop_), time);
  }

  // Tries versions newer than the one served, the newest first, until one
  // loads. Failures are reported here; returns the first of them.
  absl::Status TakeUpNewest(const std::vector<uint64_t>& versions) {
    absl::Status first;
    for (auto v = versions.rbegin(); v != versions.rend() && *v > taken_; ++v) {
      if (failed_.contains(*v)) continue;
      absl::Status status = TakeUp(*v);
      if (status.ok()) break;
      failed_.insert(*v);
      load_failures_.Add(1);
      std::fprintf(stderr, "serve: skipped version %llu: %s\n", static_cast<unsigned long long>(*v),
                   std::string(status.message()).c_str());
      first.Update(status);
    }
    return first;
  }

  absl::Status TakeUp(uint64_t version) {
    std::string dir = BundleVersionDir(path_, version);
    ASSIGN_OR_RETURN(auto model, LoadModel(dir));
    if (std::shared_ptr<const Predictor> served = current(); served != nullptr) {
      absl::Status status = CheckSuccessor(*served, *model);
      if (!status.ok()) return Annotate(status, dir);
    }
    taken_ = version;
    Swap(std::move(model));
    return absl::OkStatus();
  }

  void Swap(std::shared_ptr<const Predictor> model) {
    version_gauge_.Set(static_cast<double>(model->bundle().spec().info.version()));
    absl::MutexLock lock(&mu_);
    current_.swap(model);  // The old one is freed outside the lock, or by its last request.
  }

  const std::string path_;
  const double watch_s_;
  Gauge& version_gauge_ =
      GetGauge("starling_serving_version", "Version of the model being served.");
  Counter& load_failures_ = GetCounter("starling_serving_load_failures_total",
                                       "Versions that could not be served and were skipped.");

  // Touched by Start, then by the watcher alone.
  uint64_t taken_ = 0;  // Version, by its directory's name.
  std::set<uint64_t> failed_;
  std::string last_error_;

  mutable absl::Mutex mu_;
  std::shared_ptr<const Predictor> current_ ABSL_GUARDED_BY(mu_);
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  std::thread watcher_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ModelHost>> ModelHost::Open(const std::string& path,
                                                           double watch_s) {
  auto host = std::make_unique<WatchingHost>(path, watch_s);
  RETURN_IF_ERROR(host->Start());
  return host;
}

}  // namespace starling
