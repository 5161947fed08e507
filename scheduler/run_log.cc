#include "scheduler/run_log.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/metrics.h"
#include "base/status.h"
#include "scheduler/event_file.h"

namespace starling {
namespace {

constexpr double kLineEvery = 10, kBarEvery = 0.25;  // seconds
constexpr int kWriteEvery = 20;                      // steps

double Now() { return absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()); }

std::string Duration(double s) {
  int64_t t = static_cast<int64_t>(s + 0.5);
  if (t >= 3600) return absl::StrFormat("%dh%02dm", t / 3600, t / 60 % 60);
  if (t >= 60) return absl::StrFormat("%dm%02ds", t / 60, t % 60);
  return absl::StrFormat("%ds", t);
}

std::string Count(double n) {
  if (n >= 1e6) return absl::StrFormat("%.2fM", n / 1e6);
  if (n >= 1e3) return absl::StrFormat("%.1fk", n / 1e3);
  return absl::StrFormat("%.0f", n);
}

class RunLogImpl : public RunLog {
 public:
  RunLogImpl(std::unique_ptr<WritableFile> lines, std::unique_ptr<EventFile> events, int64_t total,
             const OutputSpec& first)
      : lines_(std::move(lines)),
        events_(std::move(events)),
        total_(total),
        first_(first),
        tty_(isatty(STDERR_FILENO)) {}
  ~RunLogImpl() override { EndBar(); }

  absl::Status Step(int64_t step, int64_t samples, double loss, double lr_scale,
                    std::span<const float> scores, const Batch& batch) override {
    double now = Now();
    if (steps_++ == 0) {
      start_ = shown_ = now;
      start_samples_ = samples - batch.rows;
    }
    loss_ = steps_ == 1 ? loss : 0.95 * loss_ + 0.05 * loss;
    FollowAuc(scores, batch);
    steps_total_.Add(1);
    samples_total_.Add(batch.rows);
    if (now - shown_ >= (tty_ ? kBarEvery : kLineEvery)) {
      Show(step, samples, now);
      shown_ = now;
    }
    if (step % kWriteEvery != 0) return absl::OkStatus();
    double rate = Rate(samples, now);
    loss_gauge_.Set(loss_);
    auc_gauge_.Set(auc_.Value());
    rate_gauge_.Set(rate);
    RETURN_IF_ERROR(events_->Scalar("train/loss", step, loss_));
    RETURN_IF_ERROR(events_->Scalar("train/auc", step, auc_.Value()));
    RETURN_IF_ERROR(events_->Scalar("train/samples_per_s", step, rate));
    RETURN_IF_ERROR(events_->Scalar("train/lr_scale", step, lr_scale));
    return Line(absl::StrFormat(
        R"({"time": %.3f, "step": %d, "samples": %d, "loss": %.6f, "auc": %.6f, "lr_scale": %g, "samples_per_s": %.1f})",
        now, step, samples, loss_, auc_.Value(), lr_scale, rate));
  }

  absl::Status Eval(int64_t step, const std::vector<EvalMetrics>& metrics) override {
    for (size_t t = 0; t < metrics.size(); ++t) {
      const std::string of = metrics.size() > 1 ? metrics[t].output : "";
      RETURN_IF_ERROR(EvalOutput(step, metrics[t], of));
    }
    return Line(absl::StrFormat(R"({"time": %.3f, "step": %d, "eval": {%s, "samples": %d}})", Now(),
                                step, MetricsJson(metrics), metrics[0].samples));
  }

  void Say(absl::string_view line) override {
    EndBar();
    std::fprintf(stderr, "%s\n", std::string(line).c_str());
  }

  double train_loss() const override { return loss_; }
  double train_auc() const override { return auc_.Value(); }

 private:
  // One output, named if there are several.
  absl::Status EvalOutput(int64_t step, const EvalMetrics& m, const std::string& name) {
    const std::string who = name.empty() ? "" : absl::StrCat(name, ": ");
    const std::string tag = name.empty() ? "eval/" : absl::StrCat("eval/", name, "/");
    if (!m.probability) {
      Say(absl::StrFormat("eval at step %d: %srmse %.5f  (%d rows)", step, who, m.rmse, m.samples));
      return events_->Scalar(tag + "rmse", step, m.rmse);
    }
    Say(
        absl::StrFormat("eval at step %d: %sauc %.5f  gauc %.5f  logloss %.5f  ne %.4f  "
                        "calibration %.4f  (%d rows)",
                        step, who, m.auc, m.gauc, m.logloss, m.ne, m.calibration, m.samples));
    RETURN_IF_ERROR(events_->Scalar(tag + "auc", step, m.auc));
    RETURN_IF_ERROR(events_->Scalar(tag + "gauc", step, m.gauc));
    RETURN_IF_ERROR(events_->Scalar(tag + "logloss", step, m.logloss));
    return events_->Scalar(tag + "calibration", step, m.calibration);
  }

  void FollowAuc(std::span<const float> scores, const Batch& batch) {
    const size_t outputs = scores.size() / batch.rows, labels = batch.labels.size() / batch.rows;
    first_scores_.clear();
    first_labels_.clear();
    for (size_t row = 0; row < batch.rows; ++row) {
      first_scores_.push_back(scores[row * outputs]);
      first_labels_.push_back(batch.labels[row * labels + first_.label]);
    }
    auc_.Add(first_scores_, first_labels_);
  }

  double Rate(int64_t samples, double now) const {
    return static_cast<double>(samples - start_samples_) / std::max(1e-3, now - start_);
  }

  void Show(int64_t step, int64_t samples, double now) {
    double rate = Rate(samples, now);
    std::string left, bar;
    if (total_ > 0) {
      double done = std::min(1.0, static_cast<double>(samples) / static_cast<double>(total_));
      int cells = static_cast<int>(done * 24);
      bar = absl::StrCat("[", std::string(cells, '='), std::string(24 - cells, ' '), "] ");
      left = absl::StrFormat(
          "%3.0f%%  %s left  ", done * 100,
          Duration(static_cast<double>(std::max<int64_t>(0, total_ - samples)) / rate));
    }
    std::string text =
        absl::StrFormat("%sstep %d  %s rows  %s rows/s  loss %.4f  auc %.4f", left, step,
                        Count(static_cast<double>(samples)), Count(rate), loss_, auc_.Value());
    if (tty_) {
      std::fprintf(stderr, "\r\033[K%s%s", bar.c_str(), text.c_str());
      bar_open_ = true;
    } else {
      std::fprintf(stderr, "%s\n", text.c_str());
    }
    std::fflush(stderr);
  }

  void EndBar() {
    if (bar_open_) std::fputc('\n', stderr);
    bar_open_ = false;
  }

  absl::Status Line(absl::string_view json) {
    RETURN_IF_ERROR(lines_->Append(absl::StrCat(json, "\n")));
    return lines_->Flush();
  }

  std::unique_ptr<WritableFile> lines_;
  std::unique_ptr<EventFile> events_;
  const int64_t total_;
  const OutputSpec first_;
  const bool tty_;
  bool bar_open_ = false;
  int64_t steps_ = 0, start_samples_ = 0;
  double start_ = 0, shown_ = 0, loss_ = 0;
  RunningAuc auc_;
  std::vector<float> first_scores_, first_labels_;  // Of the first output.
  Counter& steps_total_ = GetCounter("starling_train_steps_total", "Steps trained.");
  Counter& samples_total_ = GetCounter("starling_train_samples_total", "Rows trained.");
  Gauge& loss_gauge_ = GetGauge("starling_train_loss", "Fading mean of the log loss.");
  Gauge& auc_gauge_ = GetGauge("starling_train_auc", "Progressive AUC of recent rows.");
  Gauge& rate_gauge_ =
      GetGauge("starling_train_samples_per_second", "Rows per second of this run.");
};

}  // namespace

absl::StatusOr<std::unique_ptr<RunLog>> RunLog::Create(const std::string& dir,
                                                       int64_t total_samples,
                                                       const OutputSpec& first) {
  RETURN_IF_ERROR(MakeDirs(dir));
  ASSIGN_OR_RETURN(std::unique_ptr<EventFile> events,
                   EventFile::Create(JoinPath(dir, "tensorboard")));
  ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> lines,
                   AppendToFile(JoinPath(dir, "metrics.jsonl")));
  return std::make_unique<RunLogImpl>(std::move(lines), std::move(events), total_samples, first);
}

}  // namespace starling
