#include <utility>

#include "absl/strings/str_cat.h"
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

class Control final : public PsControl {
 public:
  explicit Control(const std::vector<std::string>& servers) : calls_(servers) {}

  absl::Status WaitForServers() {
    return FirstError(calls_.CallAll("Stats", kFirstContact, NoRequest));
  }

  absl::StatusOr<std::vector<FileSetEntry>> Save(const std::string& dir) override {
    SaveRequest request;
    request.set_dir(dir);
    auto replies = calls_.CallAll("Save", kWholeStore, [&](int) {
      return RpcMessage{request.SerializeAsString(), ""};
    });
    RETURN_IF_ERROR(FirstError(replies));
    std::vector<FileSetEntry> files;
    for (const auto& reply : replies) {
      SaveReply saved;
      if (!saved.ParseFromString(reply->body)) return BadReply("Save");
      std::vector<FileSetEntry> part = FromProto(saved.files());
      files.insert(files.end(), part.begin(), part.end());
    }
    return files;
  }

  absl::Status Load(const StoreConfig& config, const std::string& dir,
                    const std::vector<FileSetEntry>& files) override {
    return FirstError(calls_.CallAll("Load", kWholeStore, [&](int server) {
      LoadRequest request;
      *request.mutable_config() = config;
      request.set_shard(server);
      request.set_shards(calls_.servers());
      request.set_dir(dir);
      ToProto(files, request.mutable_files());
      return RpcMessage{request.SerializeAsString(), ""};
    }));
  }

  absl::StatusOr<std::vector<Stats>> GetStats() override {
    auto replies = calls_.CallAll("Stats", kQuick, NoRequest);
    RETURN_IF_ERROR(FirstError(replies));
    std::vector<Stats> all;
    for (const auto& reply : replies) {
      StatsReply stats;
      if (!stats.ParseFromString(reply->body)) return BadReply("Stats");
      all.push_back({stats.batches_applied(), stats.batches_repeated(), stats.rows()});
    }
    return all;
  }

  absl::Status Stop() override { return FirstError(calls_.CallAll("Stop", kQuick, NoRequest)); }

 private:
  static RpcMessage NoRequest(int) { return {}; }
  static absl::Status BadReply(absl::string_view method) {
    return absl::InternalError(absl::StrCat("a server's reply to ", method, " cannot be read"));
  }
  static absl::Status FirstError(const std::vector<absl::StatusOr<RpcMessage>>& replies) {
    for (const auto& reply : replies) RETURN_IF_ERROR(reply.status());
    return absl::OkStatus();
  }

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
