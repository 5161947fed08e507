// Counters, gauges and histograms, exported to Prometheus. A metric is made
// once and lives as long as the process; updates are lock-free.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace starling {

using MetricLabels = std::map<std::string, std::string>;

class Counter {
 public:
  virtual ~Counter() = default;
  virtual void Add(double n) = 0;
  virtual double Value() const = 0;
};
class Gauge {
 public:
  virtual ~Gauge() = default;
  virtual void Set(double v) = 0;
  virtual double Value() const = 0;
};
class Histogram {
 public:
  virtual ~Histogram() = default;
  virtual void Observe(double v) = 0;
};

// The same name and labels give the same metric.
Counter& GetCounter(const std::string& name, const std::string& help,
                    const MetricLabels& labels = {});
Gauge& GetGauge(const std::string& name, const std::string& help, const MetricLabels& labels = {});
Histogram& GetHistogram(const std::string& name, const std::string& help,
                        const std::vector<double>& bounds, const MetricLabels& labels = {});

// Calls `refresh` whenever metrics are about to be read, until it is destroyed:
// for figures that are easier to ask for than to keep up to date. One refresh
// runs at a time.
class MetricsRefresher {
 public:
  explicit MetricsRefresher(std::function<void()> refresh);
  ~MetricsRefresher();
  MetricsRefresher(const MetricsRefresher&) = delete;
  MetricsRefresher& operator=(const MetricsRefresher&) = delete;

 private:
  const std::function<void()> refresh_;
};

// All metrics in Prometheus' text format, for a /metrics page.
std::string MetricsText();

// Serves /metrics on 127.0.0.1 until destroyed.
class MetricsServer {
 public:
  // Port 0 picks a free one. Unavailable if the port is taken.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(int port);
  virtual ~MetricsServer() = default;
  virtual int port() const = 0;
};

}  // namespace starling
