// One conformance suite for every transport, then what only sockets can do.
#include "base/transport.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/metrics.h"
#include "base/random.h"
#include "gtest/gtest.h"

namespace starling {
namespace {

constexpr absl::Duration kLong = absl::Seconds(60);

std::string RandomBytes(size_t n, uint64_t seed) {
  std::string bytes(n, '\0');
  for (size_t i = 0; i + 8 <= n; i += 8) {
    uint64_t bits = RandomBits(seed, i);
    std::memcpy(bytes.data() + i, &bits, 8);
  }
  return bytes;
}

// Echo gives the request back; Fail an error; Hang keeps the reply for later.
class EchoService {
 public:
  RpcHandler handler() {
    return [this](absl::string_view service, absl::string_view method, RpcMessage request,
                  RpcDone reply) { Handle(service, method, std::move(request), std::move(reply)); };
  }
  int calls() const { return calls_.load(); }
  // Answers the calls of Hang; later ones are answered at once.
  void Release() {
    std::vector<RpcDone> hung;
    {
      std::lock_guard lock(mu_);
      hung.swap(hung_);
    }
    for (RpcDone& reply : hung) reply(RpcMessage{"late", ""});
  }

 private:
  void Handle(absl::string_view service, absl::string_view method, RpcMessage request,
              RpcDone reply) {
    ++calls_;
    if (service != "test.Echo") return reply(absl::UnimplementedError("no such service"));
    if (method == "Echo") return reply(std::move(request));
    if (method == "Fail") return reply(absl::FailedPreconditionError("as asked: " + request.body));
    if (method == "Later") {
      std::thread([reply, request = std::move(request)]() mutable {
        reply(std::move(request));
      }).detach();
      return;
    }
    std::lock_guard lock(mu_);
    hung_.push_back(std::move(reply));
  }

  std::atomic<int> calls_{0};
  std::mutex mu_;
  std::vector<RpcDone> hung_;
};

class TransportTest : public testing::TestWithParam<bool> {
 protected:
  TransportTest() {
    if (GetParam()) {
      auto server = StartRpcServer({}, echo_.handler());
      EXPECT_TRUE(server.ok()) << server.status();
      server_ = *std::move(server);
      channel_ = ConnectRpc(absl::StrCat("127.0.0.1:", server_->port()));
    } else {
      channel_ = InProcessRpc(echo_.handler());
    }
  }
  ~TransportTest() override { echo_.Release(); }

  absl::StatusOr<RpcMessage> Call(const std::string& method, RpcMessage request,
                                  absl::Duration timeout = kLong) {
    return channel_->CallAndWait("test.Echo", method, std::move(request), timeout);
  }

  EchoService echo_;
  std::unique_ptr<RpcServer> server_;
  std::unique_ptr<RpcChannel> channel_;
};
INSTANTIATE_TEST_SUITE_P(All, TransportTest, testing::Bool(),
                         [](const auto& p) { return p.param ? "Asio" : "InProcess"; });

TEST_P(TransportTest, EchoBringsBodyAndAttachmentBack) {
  for (size_t bytes : {0, 1, 11, 4095, 4096, 70000}) {
    RpcMessage sent{RandomBytes(bytes / 3, 1), RandomBytes(bytes, 2)};
    auto got = Call("Echo", sent);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->body, sent.body);
    EXPECT_EQ(got->attachment, sent.attachment);
  }
}

TEST_P(TransportTest, LargeAttachmentArrivesWhole) {
  RpcMessage sent{"", RandomBytes(64 << 20, 3)};
  auto got = Call("Echo", sent);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_TRUE(got->attachment == sent.attachment);
}

TEST_P(TransportTest, ErrorsKeepCodeAndText) {
  EXPECT_EQ(Call("Fail", {"x", ""}).status(), absl::FailedPreconditionError("as asked: x"));
  EXPECT_EQ(channel_->CallAndWait("other", "Echo", {}, kLong).status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_TRUE(Call("Echo", {}).ok());
}

TEST_P(TransportTest, ThousandCallsUnderWayGetTheirOwnReplies) {
  constexpr int kCalls = 1000, kThreads = 4;
  std::atomic<int> right{0}, left{kCalls};
  std::promise<void> all;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = t; i < kCalls; i += kThreads) {
        std::string body = absl::StrCat("call ", i), attachment(i * 10, static_cast<char>(i));
        channel_->Call("test.Echo", i % 2 == 0 ? "Echo" : "Later", {body, attachment}, kLong,
                       [&, body, attachment](absl::StatusOr<RpcMessage> reply) {
                         right +=
                             reply.ok() && reply->body == body && reply->attachment == attachment;
                         if (--left == 0) all.set_value();
                       });
      }
    });
  }
  for (std::thread& t : threads) t.join();
  all.get_future().wait();
  EXPECT_EQ(right.load(), kCalls);
}

TEST_P(TransportTest, MissingReplyIsDeadlineExceededOnce) {
  EXPECT_EQ(Call("Hang", {}, absl::Milliseconds(30)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  echo_.Release();  // The late reply finds nobody.
  EXPECT_TRUE(Call("Echo", {}).ok());
}

TEST_P(TransportTest, ClosingTheChannelCancelsWhatIsUnderWay) {
  std::atomic<int> cancelled{0};
  for (int i = 0; i < 10; ++i) {
    channel_->Call("test.Echo", "Hang", {}, kLong, [&](absl::StatusOr<RpcMessage> reply) {
      cancelled += absl::IsCancelled(reply.status());
    });
  }
  channel_.reset();
  EXPECT_EQ(cancelled.load(), 10);
}

class AsioTest : public testing::Test {
 protected:
  std::unique_ptr<RpcServer> Serve(int port = 0, int64_t bytes_max = 1 << 30) {
    RpcServerOptions options;
    options.address = absl::StrCat("127.0.0.1:", port);
    options.message_bytes_max = bytes_max;
    auto server = StartRpcServer(options, echo_.handler());
    EXPECT_TRUE(server.ok()) << server.status();
    return *std::move(server);
  }
  static std::unique_ptr<RpcChannel> Open(int port) {
    return ConnectRpc(absl::StrCat("127.0.0.1:", port));
  }
  // Sends bytes on a bare socket and returns true when the peer hangs up.
  static bool PeerHangsUpAfter(int port, const std::string& bytes) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bool connected = connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0;
    ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    char byte;
    bool gone =
        connected && sent == static_cast<ssize_t>(bytes.size()) && recv(fd, &byte, 1, 0) <= 0;
    close(fd);
    return gone;
  }

  EchoService echo_;
};

TEST_F(AsioTest, NobodyListeningIsUnavailable) {
  int port = Serve()->port();
  EXPECT_EQ(Open(port)->CallAndWait("test.Echo", "Echo", {}, kLong).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(ConnectRpc("no port")->CallAndWait("s", "m", {}, kLong).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(AsioTest, PeerDeathIsUnavailableForAllCallsAndTheNextCallReconnects) {
  auto server = Serve();
  int port = server->port();
  auto channel = Open(port);
  std::atomic<int> unavailable{0}, left{20};
  std::promise<void> all;
  for (int i = 0; i < 20; ++i) {
    channel->Call("test.Echo", "Hang", {}, kLong, [&](absl::StatusOr<RpcMessage> reply) {
      unavailable += absl::IsUnavailable(reply.status());
      if (--left == 0) all.set_value();
    });
  }
  while (echo_.calls() < 20) std::this_thread::yield();
  server.reset();
  all.get_future().wait();
  EXPECT_EQ(unavailable.load(), 20);
  echo_.Release();  // Replies to a server that is gone are dropped.
  EXPECT_TRUE(absl::IsUnavailable(channel->CallAndWait("test.Echo", "Echo", {}, kLong).status()));
  server = Serve(port);
  EXPECT_TRUE(channel->CallAndWait("test.Echo", "Echo", {}, kLong).ok());
}

TEST_F(AsioTest, StoppingServerSendsTheRepliesOfHandlersThatRan) {
  std::promise<void> entered, go;
  auto server = StartRpcServer(
      {}, [&](absl::string_view, absl::string_view, RpcMessage request, RpcDone reply) {
        entered.set_value();
        go.get_future().wait();
        reply(std::move(request));
      });
  ASSERT_TRUE(server.ok());
  auto channel = Open((*server)->port());
  std::promise<void> done;
  absl::StatusOr<RpcMessage> got;
  channel->Call("s", "m", {"", std::string(8 << 20, 'a')}, kLong,
                [&](absl::StatusOr<RpcMessage> r) {
                  got = std::move(r);
                  done.set_value();
                });
  entered.get_future().wait();
  std::thread stop([&] { server->reset(); });
  go.set_value();
  stop.join();
  done.get_future().wait();
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->attachment.size(), 8u << 20);
}

TEST_F(AsioTest, GarbageClosesItsConnectionOnlyAndIsCounted) {
  auto server = Serve();
  auto channel = Open(server->port());
  ASSERT_TRUE(channel->CallAndWait("test.Echo", "Echo", {}, kLong).ok());
  Counter& bad = GetCounter("starling_rpc_bad_frames_total", "");
  double before = bad.Value();
  EXPECT_TRUE(PeerHangsUpAfter(server->port(), "GET / HTTP/1.1\r\n\r\n"));
  EXPECT_TRUE(PeerHangsUpAfter(server->port(), std::string("PRPC\xff\xff\xff\xff\0\0\0\0", 12)));
  EXPECT_TRUE(PeerHangsUpAfter(server->port(), std::string("PRPC\0\0\0\1\0\0\0\1\xff", 13)));
  EXPECT_EQ(bad.Value() - before, 3);
  EXPECT_TRUE(channel->CallAndWait("test.Echo", "Echo", {}, kLong).ok());
}

TEST_F(AsioTest, OversizeRequestIsUnavailableAndSmallerOnesStillPass) {
  auto server = Serve(0, 1000);
  auto channel = Open(server->port());
  EXPECT_TRUE(absl::IsUnavailable(
      channel->CallAndWait("test.Echo", "Echo", {"", std::string(2000, 'a')}, kLong).status()));
  EXPECT_TRUE(channel->CallAndWait("test.Echo", "Echo", {"", std::string(500, 'a')}, kLong).ok());
}

// More requests than the server will hold: it stops reading, not serving.
TEST_F(AsioTest, ServerThatHoldsTooMuchReadsOnWhenRepliesAreGiven) {
  auto server = Serve(0, 100000);
  auto channel = Open(server->port());
  std::atomic<int> ok{0}, left{30};
  std::promise<void> all;
  for (int i = 0; i < 30; ++i) {
    channel->Call("test.Echo", "Hang", {"", std::string(30000, 'a')}, kLong,
                  [&](absl::StatusOr<RpcMessage> reply) {
                    ok += reply.ok();
                    if (--left == 0) all.set_value();
                  });
  }
  while (echo_.calls() < 4) std::this_thread::yield();
  EXPECT_EQ(echo_.calls(), 4);
  while (left > 0) {
    echo_.Release();
    std::this_thread::yield();
  }
  all.get_future().wait();
  EXPECT_EQ(ok.load(), 30);
}

TEST_F(AsioTest, PortInUseIsReported) {
  auto server = Serve();
  RpcServerOptions options;
  options.address = absl::StrCat("127.0.0.1:", server->port());
  absl::Status status = StartRpcServer(options, echo_.handler()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(std::string(status.message()).find(options.address), std::string::npos) << status;
}

}  // namespace
}  // namespace starling
