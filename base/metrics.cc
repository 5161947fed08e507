#include "base/metrics.h"

#include <prometheus/collectable.h>
#include <prometheus/counter.h>
#include <prometheus/exposer.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <exception>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace starling {
namespace {

prometheus::Registry& Registry() {
  static auto* registry = new prometheus::Registry;
  return *registry;
}

struct Refreshers {
  absl::Mutex mu;
  std::set<const std::function<void()>*> all ABSL_GUARDED_BY(mu);
};
Refreshers& AllRefreshers() {
  static auto* refreshers = new Refreshers;
  return *refreshers;
}

class RefreshedRegistry : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override {
    absl::MutexLock lock(&AllRefreshers().mu);
    for (const auto* refresh : AllRefreshers().all) (*refresh)();
    return Registry().Collect();
  }
};

class MetricsServerImpl : public MetricsServer {
 public:
  explicit MetricsServerImpl(int port) : exposer_(absl::StrCat("127.0.0.1:", port), 1) {
    exposer_.RegisterCollectable(registry_);
  }
  int port() const override { return exposer_.GetListeningPorts().front(); }

 private:
  const std::shared_ptr<RefreshedRegistry> registry_ = std::make_shared<RefreshedRegistry>();
  prometheus::Exposer exposer_;
};

class PromCounter : public Counter {
 public:
  explicit PromCounter(prometheus::Counter& c) : c_(c) {}
  void Add(double n) override { c_.Increment(n); }
  double Value() const override { return c_.Value(); }

 private:
  prometheus::Counter& c_;
};

class PromGauge : public Gauge {
 public:
  explicit PromGauge(prometheus::Gauge& g) : g_(g) {}
  void Set(double v) override { g_.Set(v); }
  double Value() const override { return g_.Value(); }

 private:
  prometheus::Gauge& g_;
};

class PromHistogram : public Histogram {
 public:
  explicit PromHistogram(prometheus::Histogram& h) : h_(h) {}
  void Observe(double v) override { h_.Observe(v); }

 private:
  prometheus::Histogram& h_;
};

// One wrapper per (name, labels); the first caller makes it.
template <typename T, typename Make>
T& Once(const std::string& name, const MetricLabels& labels, Make make) {
  static absl::Mutex* mu = new absl::Mutex;
  static auto* made = new std::map<std::pair<std::string, MetricLabels>, std::unique_ptr<T>>;
  absl::MutexLock lock(mu);
  std::unique_ptr<T>& slot = (*made)[{name, labels}];
  if (slot == nullptr) slot = make();
  return *slot;
}

}  // namespace

Counter& GetCounter(const std::string& name, const std::string& help, const MetricLabels& labels) {
  return Once<Counter>(name, labels, [&] {
    auto& family = prometheus::BuildCounter().Name(name).Help(help).Register(Registry());
    return std::make_unique<PromCounter>(family.Add(labels));
  });
}

Gauge& GetGauge(const std::string& name, const std::string& help, const MetricLabels& labels) {
  return Once<Gauge>(name, labels, [&] {
    auto& family = prometheus::BuildGauge().Name(name).Help(help).Register(Registry());
    return std::make_unique<PromGauge>(family.Add(labels));
  });
}

Histogram& GetHistogram(const std::string& name, const std::string& help,
                        const std::vector<double>& bounds, const MetricLabels& labels) {
  return Once<Histogram>(name, labels, [&] {
    auto& family = prometheus::BuildHistogram().Name(name).Help(help).Register(Registry());
    return std::make_unique<PromHistogram>(family.Add(labels, bounds));
  });
}

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(int port) {
  try {  // civetweb has no other way to say that a port is taken.
    return std::make_unique<MetricsServerImpl>(port);
  } catch (const std::exception& e) {
    return absl::UnavailableError(absl::StrCat("cannot serve /metrics on 127.0.0.1:", port, " (",
                                               e.what(), "); choose another port"));
  }
}

MetricsRefresher::MetricsRefresher(std::function<void()> refresh) : refresh_(std::move(refresh)) {
  absl::MutexLock lock(&AllRefreshers().mu);
  AllRefreshers().all.insert(&refresh_);
}

MetricsRefresher::~MetricsRefresher() {
  absl::MutexLock lock(&AllRefreshers().mu);
  AllRefreshers().all.erase(&refresh_);
}

std::string MetricsText() {
  return prometheus::TextSerializer().Serialize(RefreshedRegistry().Collect());
}

}  // namespace starling
