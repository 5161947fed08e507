#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "ps/file_entries.h"
#include "ps/parameter_client.h"
#include "ps/ps.pb.h"
#include "ps/server_calls.h"

namespace starling {
namespace {

const CallPolicy kFirstContact{absl::Seconds(10), absl::Seconds(60)};
const CallPolicy kQuick{absl::Seconds(30), absl::ZeroDuration()};
const CallPolicy kWholeStore{absl::Hours(1), absl::ZeroDuration()};

RpcMessage NoRequest(int) { return {}; }

absl::Status FirstError(const std::vector<absl::StatusOr<RpcMessage>>& replies) {
  for (const auto& reply : replies) RETURN_IF_ERROR(reply.status());
  return absl::OkStatus();
}

// The replies of all servers; the first error if there is one.
template <typename Reply>
absl::StatusOr<std::vector<Reply>> ParseAll(absl::string_view method,
                                            const std::vector<absl::StatusOr<RpcMessage>>& from) {
  RETURN_IF_ERROR(FirstError(from));
  std::vector<Reply> replies(from.size());
  for (size_t s = 0; s < from.size(); ++s) {
    if (replies[s].ParseFromString(from[s]->body)) continue;
    return absl::InternalError(absl::StrCat("a server's reply to ", method, " cannot be read"));
  }
  return replies;
}

// What all servers write, seen from here: asked for until all are done.
class RemoteCut final : public StoreCut {
 public:
  RemoteCut(ServerCalls* calls, std::vector<uint32_t> epochs)
      : calls_(calls), epochs_(std::move(epochs)) {}

  ~RemoteCut() override {
    Hurry();
    if (!waited_) Wait().IgnoreError();
  }
  void Hurry() override { hurry_ = true; }
  const std::vector<uint32_t>& epochs() const override { return epochs_; }

  absl::StatusOr<std::vector<FileSetEntry>> Wait() override {
    waited_ = true;
    for (absl::Duration pause = absl::Milliseconds(1);; pause = std::min(2 * pause, kPauseMax)) {
      CutStatusRequest request;
      request.set_hurry(hurry_);
      auto raw = calls_->CallAll("CutStatus", kQuick, [&](int) {
        return RpcMessage{request.SerializeAsString(), ""};
      });
      // One has failed: the others are waited for all the same.
      bool under_way = false;
      std::vector<FileSetEntry> files;
      for (const auto& reply : raw) {
        CutStatusReply status;
        if (!reply.ok() || !status.ParseFromString(reply->body)) {
          hurry_ = true;
          continue;
        }
        under_way |= !status.done();
        std::vector<FileSetEntry> part = FromProto(status.files());
        files.insert(files.end(), part.begin(), part.end());
      }
      if (!under_way) {
        RETURN_IF_ERROR(ParseAll<CutStatusReply>("CutStatus", raw).status());
        return files;
      }
      absl::SleepFor(pause);
    }
  }

 private:
  static constexpr absl::Duration kPauseMax = absl::Milliseconds(50);

  ServerCalls* const calls_;
  const std::vector<uint32_t> epochs_;
  std::atomic<bool> hurry_{false};
  bool waited_ = false;
};

class Control final : public PsControl {
 public:
  explicit Control(const std::vector<std::string>& servers) : calls_(servers) {}

  absl::Status WaitForServers() {
    return FirstError(calls_.CallAll("Stats", kFirstContact, NoRequest));
  }

  absl::StatusOr<std::unique_ptr<StoreCut>> StartCut(const std::string& dir,
                                                     const CutOptions& options) override {
    const size_t tables = options.since.size() / calls_.servers();
    auto raw = calls_.CallAll("Cut", kWholeStore, [&](int server) {
      CutRequest request;
      request.set_dir(dir);
      request.set_bytes_per_second_max(options.bytes_per_second_max);
      for (size_t t = 0; t < tables; ++t) request.add_since(options.since[server * tables + t]);
      return RpcMessage{request.SerializeAsString(), ""};
    });
    absl::StatusOr<std::vector<CutReply>> replies = ParseAll<CutReply>("Cut", raw);
    if (!replies.ok()) {
      // Those that have begun must not write when the directory goes.
      RemoteCut(&calls_, {}).Wait().IgnoreError();
      return replies.status();
    }
    std::vector<uint32_t> epochs;
    for (const CutReply& reply : *replies)
      epochs.insert(epochs.end(), reply.epochs().begin(), reply.epochs().end());
    return std::make_unique<RemoteCut>(&calls_, std::move(epochs));
  }

  void ForgetBefore(const std::vector<uint32_t>& epochs) override {
    const size_t tables = epochs.size() / calls_.servers();
    // A server that cannot be reached remembers more than it needs.
    calls_.CallAll("Forget", kQuick, [&](int server) {
      ForgetRequest request;
      for (size_t t = 0; t < tables; ++t) request.add_epochs(epochs[server * tables + t]);
      return RpcMessage{request.SerializeAsString(), ""};
    });
  }

  absl::Status Load(const StoreConfig& config, const std::vector<StoredCut>& chain) override {
    return FirstError(calls_.CallAll("Load", kWholeStore, [&](int server) {
      LoadRequest request;
      *request.mutable_config() = config;
      request.set_shard(server);
      request.set_shards(calls_.servers());
      for (const StoredCut& cut : chain) {
        StoredCutProto* stored = request.add_chain();
        stored->set_dir(cut.dir);
        ToProto(cut.files, stored->mutable_files());
      }
      return RpcMessage{request.SerializeAsString(), ""};
    }));
  }

  absl::StatusOr<std::vector<Stats>> GetStats() override {
    ASSIGN_OR_RETURN(std::vector<StatsReply> replies,
                     ParseAll<StatsReply>("Stats", calls_.CallAll("Stats", kQuick, NoRequest)));
    std::vector<Stats> all;
    for (const StatsReply& s : replies)
      all.push_back({s.batches_applied(), s.batches_repeated(), s.rows()});
    return all;
  }

  absl::Status Stop() override { return FirstError(calls_.CallAll("Stop", kQuick, NoRequest)); }

 private:
  ServerCalls calls_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PsControl>> PsControl::Connect(
    const std::vector<std::string>& servers) {
  auto control = std::make_unique<Control>(servers);
  RETURN_IF_ERROR(control->WaitForServers());
  return control;
}

}  // namespace starling
