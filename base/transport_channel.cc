// The client's side of the default transport. A channel has a loop of one
// thread, and all its state belongs to that thread, so it needs no lock.
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/transport.h"
#include "base/transport_io.h"

namespace starling {
namespace {

constexpr int64_t kReplyBytesMax = int64_t{1} << 31;
constexpr size_t kCallsMax = 1 << 16;  // Under way at once.

class Channel final : public RpcChannel {
 public:
  explicit Channel(std::string address) : address_(std::move(address)), loop_(IoLoop::Start(1)) {}
  ~Channel() override {
    loop_->Post([this] {
      closed_ = true;
      Disconnect(absl::CancelledError(absl::StrCat(address_, ": the channel was closed")));
    });
  }

  void Call(absl::string_view service, absl::string_view method, RpcMessage request,
            absl::Duration timeout, RpcDone done) override {
    auto frame = std::make_shared<RpcFrame>();
    frame->meta.mutable_request()->set_service_name(std::string(service));
    frame->meta.mutable_request()->set_method_name(std::string(method));
    frame->body = std::move(request.body);
    frame->attachment = std::move(request.attachment);
    loop_->Post([this, frame, timeout, done = std::move(done)]() mutable {
      StartCall(std::move(*frame), timeout, std::move(done));
    });
  }

 private:
  struct Pending {
    RpcDone done;
    std::unique_ptr<IoTimer> deadline;
  };

  void StartCall(RpcFrame frame, absl::Duration timeout, RpcDone done) {
    if (closed_) return done(absl::CancelledError("the channel was closed"));
    if (pending_.size() >= kCallsMax) {
      return done(absl::ResourceExhaustedError(
          absl::StrCat(address_, ": ", kCallsMax, " calls are under way already")));
    }
    if (auto head = EncodeFrameHead(frame); !head.ok()) return done(head.status());
    int64_t id = next_id_++;
    frame.meta.set_correlation_id(id);
    Pending& call = pending_[id];
    call.done = std::move(done);
    call.deadline = loop_->After(timeout, [this, id, timeout] {
      FinishCall(id, absl::DeadlineExceededError(absl::StrCat(address_, ": no reply within ",
                                                              absl::FormatDuration(timeout))));
    });
    if (stream_ != nullptr) return stream_->Send(std::move(frame));
    unsent_.push_back(std::move(frame));
    if (!std::exchange(connecting_, true)) Connect();
  }

  void Connect() {
    loop_->Connect(address_, kReplyBytesMax,
                   [this](absl::StatusOr<std::shared_ptr<FrameStream>> stream) {
                     connecting_ = false;
                     if (!stream.ok()) return FailAll(stream.status());
                     Connected(*std::move(stream));
                   });
  }

  void Connected(std::shared_ptr<FrameStream> stream) {
    FrameStream* opened = stream.get();
    stream->Start([this](RpcFrame frame) { Reply(std::move(frame)); },
                  [this, opened](absl::Status why) {
                    if (stream_.get() == opened) Disconnect(Annotate(why, address_));
                  });
    if (closed_) return stream->Close(absl::CancelledError("the channel was closed"));
    stream_ = std::move(stream);
    for (RpcFrame& frame : std::exchange(unsent_, {})) {
      if (pending_.contains(frame.meta.correlation_id())) stream_->Send(std::move(frame));
    }
  }

  void Reply(RpcFrame frame) {
    const BaiduResponseMeta& response = frame.meta.response();
    absl::Status status = StatusOfError(response.error_code(), response.error_text());
    if (status.ok() && frame.meta.compress_type() != 0) {
      status = absl::UnimplementedError(absl::StrCat(address_, ": the reply is compressed"));
    }
    int64_t id = frame.meta.correlation_id();
    if (!status.ok()) return FinishCall(id, std::move(status));
    FinishCall(id, RpcMessage{std::move(frame.body), std::move(frame.attachment)});
  }

  // A reply that comes after its deadline finds no call.
  void FinishCall(int64_t id, absl::StatusOr<RpcMessage> result) {
    auto call = pending_.extract(id);
    if (!call.empty()) call.mapped().done(std::move(result));
  }

  void FailAll(const absl::Status& why) {
    unsent_.clear();
    std::map<int64_t, Pending> failed = std::exchange(pending_, {});
    for (auto& [id, call] : failed) call.done(why);
  }

  void Disconnect(const absl::Status& why) {
    if (auto stream = std::exchange(stream_, nullptr); stream != nullptr) stream->Close(why);
    FailAll(why);
  }

  const std::string address_;
  // On the loop's thread.
  std::map<int64_t, Pending> pending_;  // By correlation id.
  std::vector<RpcFrame> unsent_;        // Wait for the connection.
  std::shared_ptr<FrameStream> stream_;
  int64_t next_id_ = 1;
  bool connecting_ = false;
  bool closed_ = false;

  const std::unique_ptr<IoLoop> loop_;  // Last, so destroyed first: its threads use all the above.
};

}  // namespace

std::unique_ptr<RpcChannel> ConnectRpc(const std::string& address) {
  return std::make_unique<Channel>(address);
}

}  // namespace starling
