#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "embedding_store/row_layout.h"
#include "ps/attachment.h"
#include "ps/call_check.h"
#include "ps/parameter_client.h"
#include "ps/ps.pb.h"
#include "ps/server_calls.h"
#include "ps/shard_map.h"

namespace starling {
namespace {

// The ids of one table that one server owns: [first, first + n) of a call's.
struct Run {
  size_t first = 0, n = 0;
};

// `done` with the first error, or ok, when the calls to all servers are over.
class Join {
 public:
  Join(int calls, ClientDone done) : left_(calls), done_(std::move(done)) {}
  void Finish(const absl::Status& status) {
    {
      std::lock_guard lock(mu_);
      if (status_.ok()) status_ = status;
      if (--left_ > 0) return;
    }
    done_(status_);
  }

 private:
  std::mutex mu_;
  int left_;
  absl::Status status_;
  const ClientDone done_;
};

// Spans of a call are copied, since only the memory behind them is promised to stay.
struct PullCall {
  PullMode mode;
  std::vector<TableKeys> tables;
  std::vector<std::span<float>> weights;
  std::span<float> dense;
};
struct PushCall {
  BatchName name;
  float lr_scale;
  std::vector<TableKeys> tables;
  std::vector<std::span<const float>> grads;
  std::span<const float> dense;
};

class RemoteClient final : public ParameterClient {
 public:
  RemoteClient(const RemoteClientOptions& options, const StoreConfig& config,
               std::vector<int> widths)
      : config_(config),
        widths_(std::move(widths)),
        map_(static_cast<int>(options.servers.size())),
        policy_{absl::Seconds(options.timeout_s), absl::Seconds(options.retry_s)},
        calls_(options.servers) {
    for (const DenseParam& param : config.dense()) dense_floats_ += param.size();
  }

  absl::Status Configure(std::span<const float> initial_dense) {
    auto replies = calls_.CallAll("Configure", policy_, [&](int server) {
      ConfigureRequest request;
      *request.mutable_config() = config_;
      request.set_shard(server);
      request.set_shards(map_.servers());
      RpcMessage message{request.SerializeAsString(), ""};
      if (server == 0) AppendArray(initial_dense, &message.attachment);
      return message;
    });
    for (const auto& reply : replies) RETURN_IF_ERROR(reply.status());
    return absl::OkStatus();
  }

  void Pull(PullMode mode, std::span<const TableKeys> tables,
            std::span<const std::span<float>> weights, std::span<float> dense,
            ClientDone done) override {
    absl::Status status = CheckCall(config_, widths_, tables, weights);
    if (status.ok() && !dense.empty()) status = CheckDense(dense.size());
    if (!status.ok()) return done(status);
    auto call = std::make_shared<PullCall>(
        PullCall{mode, {tables.begin(), tables.end()}, {weights.begin(), weights.end()}, dense});
    std::vector<std::pair<int, std::vector<Run>>> parts;
    for (int s = 0; s < map_.servers(); ++s) {
      std::vector<Run> runs = RunsOf(s, tables);
      if (HasIds(runs) || (s == 0 && !dense.empty())) parts.emplace_back(s, std::move(runs));
    }
    if (parts.empty()) return done(absl::OkStatus());
    auto join = std::make_shared<Join>(static_cast<int>(parts.size()), std::move(done));
    for (auto& [server, runs] : parts) {
      bool with_dense = server == 0 && !dense.empty();
      calls_.Call(
          server, "Pull", policy_,
          [call, runs, with_dense] { return PullMessage(*call, runs, with_dense); },
          [this, call, runs, with_dense, join](absl::StatusOr<RpcMessage> reply) {
            join->Finish(reply.ok() ? TakeRows(*call, runs, with_dense, reply->attachment)
                                    : reply.status());
          });
    }
  }

  // Every server gets every name, also one that owns none of its ids: with
  // update: dense all its rows take a step, and all windows hold equal names.
  void Push(const BatchName& name, float lr_scale, std::span<const TableKeys> tables,
            std::span<const std::span<const float>> grads, std::span<const float> dense_grads,
            ClientDone done) override {
    absl::Status status = CheckCall(config_, widths_, tables, grads);
    if (status.ok() && !dense_grads.empty()) status = CheckDense(dense_grads.size());
    if (!status.ok()) return done(status);
    auto call = std::make_shared<PushCall>(PushCall{
        name, lr_scale, {tables.begin(), tables.end()}, {grads.begin(), grads.end()}, dense_grads});
    auto join = std::make_shared<Join>(map_.servers(), std::move(done));
    for (int s = 0; s < map_.servers(); ++s) {
      calls_.Call(
          s, "Push", policy_,
          [this, s, call, runs = RunsOf(s, tables)] { return PushMessage(*call, runs, s == 0); },
          [join](absl::StatusOr<RpcMessage> reply) { join->Finish(reply.status()); });
    }
  }

  void Prefetch(std::span<const TableKeys> tables) override {
    if (tables.size() != widths_.size()) return;
    for (int s = 0; s < map_.servers(); ++s) {
      std::vector<Run> runs = RunsOf(s, tables);
      if (!HasIds(runs)) continue;
      PrefetchRequest request;
      RpcMessage message;
      for (size_t t = 0; t < tables.size(); ++t) {
        request.add_ids(static_cast<int64_t>(runs[t].n));
        AppendArray(tables[t].ids.subspan(runs[t].first, runs[t].n), &message.attachment);
      }
      message.body = request.SerializeAsString();
      // The keys may be gone when this returns, so it is sent once, as it is.
      calls_.Call(
          s, "Prefetch", {policy_.timeout, absl::ZeroDuration()},
          [message = std::move(message)]() mutable { return std::move(message); },
          [](const absl::StatusOr<RpcMessage>&) {});
    }
  }

 private:
  // Ids are ordered by bucket and a server owns a run of buckets.
  std::vector<Run> RunsOf(int server, std::span<const TableKeys> tables) const {
    std::vector<Run> runs;
    for (const TableKeys& keys : tables) {
      auto before = [this](int s) {
        return [this, s](uint64_t id) { return map_.ServerOf(id) < s; };
      };
      auto first = std::partition_point(keys.ids.begin(), keys.ids.end(), before(server));
      auto last = std::partition_point(first, keys.ids.end(), before(server + 1));
      runs.push_back(
          {static_cast<size_t>(first - keys.ids.begin()), static_cast<size_t>(last - first)});
    }
    return runs;
  }
  static bool HasIds(const std::vector<Run>& runs) {
    return std::any_of(runs.begin(), runs.end(), [](const Run& run) { return run.n > 0; });
  }

  absl::Status CheckDense(size_t floats) const {
    if (static_cast<int64_t>(floats) == dense_floats_) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("the model has ", dense_floats_, " dense parameters, the call has ", floats));
  }

  static RpcMessage PullMessage(const PullCall& call, const std::vector<Run>& runs,
                                bool with_dense) {
    PullRequest request;
    request.set_mode(call.mode == PullMode::kCreate ? PullRequest::CREATE : PullRequest::READ_ONLY);
    request.set_dense(with_dense);
    RpcMessage message;
    size_t ids = 0;
    for (const Run& run : runs) ids += run.n;
    message.attachment.reserve(ids * 20);
    for (size_t t = 0; t < runs.size(); ++t) {
      const TableKeys& keys = call.tables[t];
      TableKeyCounts* counts = request.add_tables();
      counts->set_ids(static_cast<int64_t>(runs[t].n));
      counts->set_has_event_times(!keys.event_times.empty());
      counts->set_has_counts(!keys.counts.empty());
      AppendArray(keys.ids.subspan(runs[t].first, runs[t].n), &message.attachment);
    }
    for (size_t t = 0; t < runs.size(); ++t) {
      auto times = call.tables[t].event_times;
      if (!times.empty()) AppendArray(times.subspan(runs[t].first, runs[t].n), &message.attachment);
    }
    for (size_t t = 0; t < runs.size(); ++t) {
      auto counts = call.tables[t].counts;
      if (!counts.empty())
        AppendArray(counts.subspan(runs[t].first, runs[t].n), &message.attachment);
    }
    message.body = request.SerializeAsString();
    return message;
  }

  absl::Status TakeRows(const PullCall& call, const std::vector<Run>& runs, bool with_dense,
                        const std::string& attachment) const {
    AttachmentReader reader(attachment);
    auto copy = [&reader](std::span<float> to) {
      std::span<const float> from;
      RETURN_IF_ERROR(reader.Take(static_cast<int64_t>(to.size()), &from));
      std::copy(from.begin(), from.end(), to.begin());
      return absl::OkStatus();
    };
    absl::Status status;
    for (size_t t = 0; t < runs.size() && status.ok(); ++t) {
      size_t width = widths_[t];
      status = copy(call.weights[t].subspan(runs[t].first * width, runs[t].n * width));
    }
    if (status.ok() && with_dense) status = copy(call.dense);
    if (status.ok()) status = reader.Finish();
    if (status.ok()) return status;
    return absl::InternalError(absl::StrCat("a server's reply to Pull: ", status.message()));
  }

  RpcMessage PushMessage(const PushCall& call, const std::vector<Run>& runs,
                         bool with_dense) const {
    PushRequest request;
    request.set_job(call.name.job);
    request.set_pass(call.name.pass);
    request.set_split(call.name.split);
    request.set_batch(call.name.batch);
    request.set_lr_scale(call.lr_scale);
    RpcMessage message;
    size_t bytes = with_dense ? call.dense.size_bytes() : 0;
    for (size_t t = 0; t < runs.size(); ++t) bytes += runs[t].n * (8 + 4 * widths_[t]);
    message.attachment.reserve(bytes);
    for (size_t t = 0; t < runs.size(); ++t) {
      request.add_ids(static_cast<int64_t>(runs[t].n));
      AppendArray(call.tables[t].ids.subspan(runs[t].first, runs[t].n), &message.attachment);
    }
    for (size_t t = 0; t < runs.size(); ++t) {
      size_t width = widths_[t];
      AppendArray(call.grads[t].subspan(runs[t].first * width, runs[t].n * width),
                  &message.attachment);
    }
    if (with_dense) AppendArray(call.dense, &message.attachment);
    message.body = request.SerializeAsString();
    return message;
  }

  const StoreConfig config_;
  const std::vector<int> widths_;
  const ShardMap map_;
  const CallPolicy policy_;
  int64_t dense_floats_ = 0;
  ServerCalls calls_;  // Last: its calls use all the above.
};

}  // namespace

absl::StatusOr<std::unique_ptr<ParameterClient>> NewRemoteClient(
    const RemoteClientOptions& options, const StoreConfig& config,
    std::span<const float> initial_dense) {
  if (options.servers.empty() || options.servers.size() > kBuckets) {
    return absl::InvalidArgumentError(
        absl::StrCat("1 to ", kBuckets, " servers are needed, not ", options.servers.size()));
  }
  std::vector<int> widths;
  for (const TableSpec& spec : config.tables().tables()) {
    auto layout = RowLayout::Create(spec);
    if (!layout.ok()) return Annotate(layout.status(), "table " + spec.options().name());
    widths.push_back(layout->width());
  }
  auto client = std::make_unique<RemoteClient>(options, config, std::move(widths));
  RETURN_IF_ERROR(client->Configure(initial_dense));
  return client;
}

}  // namespace starling
