// The server as clients see it: a real one on a free port, and real requests.
#include "serving/http_server.h"

#include <gmock/gmock.h>
#include <httplib.h>

#include <atomic>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/metrics.h"
#include "base/sync_point.h"
#include "serving/infer_request.h"
#include "serving/model_host.h"
#include "serving/predictor.h"
#include "serving/test_bundle.h"

namespace starling {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr char kInfer[] = "/v2/models/clicks/infer";

Json Request() {
  return Json::parse(R"({"id": "q1", "inputs": [
    {"name": "user", "shape": [4], "datatype": "INT64", "data": [1, 99, 123456, null]},
    {"name": "item", "shape": [4, 1], "datatype": "BYTES", "data": ["item3", null, "new", "item5"]},
    {"name": "tags", "shape": [4], "datatype": "BYTES", "data": [["tag1", "tag2"], [], null, ["x"]]},
    {"name": "price", "shape": [4], "datatype": "FP32", "data": [9.5, 0, null, 0.1]}]})");
}

// What a predictor without a server says to the same request.
std::vector<float> Scores(const std::string& dir, const Json& request) {
  auto predictor = Predictor::Create(*Bundle::Load(dir));
  EXPECT_TRUE(predictor.ok()) << predictor.status();
  auto parsed = ParseInferRequest(request.dump(), (*predictor)->bundle().spec().features,
                                  (*predictor)->outputs(), 65536);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return *(*predictor)->Predict(parsed->columns, nullptr);
}

std::unique_ptr<HttpServer> StartServer(ServeOptions options) {
  auto server = HttpServer::Start(options);
  EXPECT_TRUE(server.ok()) << server.status();
  return server.ok() ? *std::move(server) : nullptr;
}

class HttpServerTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = TestDir(testing::UnitTest::GetInstance()->current_test_info()->name());
    ASSERT_TRUE(WriteTestBundle(BundleVersionDir(root_, 1), 1).ok());
    options_.bundle = root_;
    options_.port = 0;
    options_.watch_s = 0.005;
  }
  void TearDown() override { EXPECT_TRUE(RemoveAll(root_).ok()); }

  std::unique_ptr<httplib::Client> Client(const HttpServer& server) {
    auto client = std::make_unique<httplib::Client>("127.0.0.1", server.port());
    client->set_keep_alive(true);
    client->set_tcp_nodelay(true);
    client->set_read_timeout(30);
    return client;
  }
  void WaitForVersion(const HttpServer& server, uint64_t version) {
    while (server.version() != version) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  std::string root_;
  ServeOptions options_;
};

TEST_F(HttpServerTest, EveryPageAnswers) {
  auto server = StartServer(options_);
  auto client = Client(*server);
  struct Page {
    const char* path;
    const char* part;
  };
  for (const Page& page :
       std::initializer_list<Page>{{"/v2/health/live", "\"live\":true"},
                                   {"/v2/health/ready", "\"ready\":true"},
                                   {"/healthz", "live"},
                                   {"/readyz", "ready"},
                                   {"/v2", "\"starling\""},
                                   {"/v2/models/clicks", "\"tags\""},
                                   {"/v2/models/clicks/ready", "\"ready\":true"},
                                   {"/v2/models/clicks/versions/1", "\"versions\":[\"1\"]"},
                                   {"/v2/models/clicks/versions/1/ready", "\"ready\":true"},
                                   {"/metrics", "starling_serving_version 1"}}) {
    auto result = client->Get(page.path);
    ASSERT_TRUE(result) << page.path;
    EXPECT_EQ(result->status, 200) << page.path;
    EXPECT_THAT(result->body, HasSubstr(page.part)) << page.path;
  }
  EXPECT_EQ(server->version(), 1u);
}

TEST_F(HttpServerTest, AScoreEqualsThePredictorsBitForBit) {
  auto server = StartServer(options_);
  std::vector<float> want = Scores(BundleVersionDir(root_, 1), Request());
  for (const char* path : {kInfer, "/v2/models/clicks/versions/1/infer"}) {
    auto result = Client(*server)->Post(path, Request().dump(), "application/json");
    ASSERT_TRUE(result);
    ASSERT_EQ(result->status, 200) << result->body;
    Json json = Json::parse(result->body);
    EXPECT_EQ(json["id"], "q1");
    EXPECT_EQ(json["model_name"], "clicks");
    EXPECT_EQ(json["model_version"], "1");
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(json["outputs"][0]["data"][i].get<float>(), want[i]);
  }
  auto metrics = Client(*server)->Get("/metrics");
  ASSERT_TRUE(metrics);
  EXPECT_THAT(metrics->body, HasSubstr("starling_serving_requests_total{code=\"200\"}"));
  EXPECT_THAT(metrics->body, HasSubstr("starling_serving_request_seconds_count"));
}

TEST_F(HttpServerTest, AnErrorSaysWhatIsWrongWithTheRequest) {
  options_.rows_max = 5;
  auto server = StartServer(options_);
  auto client = Client(*server);
  auto expect = [&](const std::string& path, const std::string& body, int status,
                    const std::string& part) {
    auto result = client->Post(path, body, "application/json");
    ASSERT_TRUE(result) << part << ": " << httplib::to_string(result.error());
    EXPECT_EQ(result->status, status) << result->body;
    EXPECT_THAT(Json::parse(result->body)["error"].get<std::string>(), HasSubstr(part));
  };
  auto changed = [](int input, const char* key, const Json& value) {
    Json request = Request();
    request["inputs"][input][key] = value;
    return request.dump();
  };
  expect(kInfer, "{nonsense", 400, "not JSON");
  expect(kInfer, "", 400, "not JSON");
  expect(kInfer, changed(0, "name", "usr"), 400, "did you mean \"user\"");
  expect(kInfer, changed(0, "shape", {3}), 400, "says 3 rows, `data` has 4");
  expect(kInfer, changed(0, "data", {1, 2, "x", 4}), 400, "element 2: \"x\" is not INT64");
  expect(kInfer, changed(0, "shape", {6}), 400, "6 rows; one request may hold 5");
  expect(kInfer, changed(0, "datatype", "FP64"), 400, "user");    // Ids are not real numbers.
  expect(kInfer, changed(3, "datatype", "BYTES"), 400, "price");  // 9.5 is no string.
  expect(kInfer,
         Json::parse(R"({"inputs":[{"name":"price","shape":[1],"datatype":"BYTES",
         "data":["a"]}]})")
             .dump(),
         400, "price");
  expect("/v2/models/other/infer", Request().dump(), 404, "\"clicks\" is served here");
  expect("/v2/models/clicks/versions/9/infer", Request().dump(), 404, "version 9 is not served");
  expect("/v2/models/clicks/explain", Request().dump(), 404, "no such page");
  expect("/nowhere", "x", 404, "no such page");
  auto get = client->Get(kInfer);
  ASSERT_TRUE(get);
  EXPECT_EQ(get->status, 405);
  auto put = client->Put(kInfer, "x", "text/plain");
  ASSERT_TRUE(put);
  EXPECT_EQ(put->status, 405);
  auto good = client->Post(kInfer, Request().dump(), "application/json");
  ASSERT_TRUE(good);
  EXPECT_EQ(good->status, 200);
}

TEST_F(HttpServerTest, ABodyBeyondTheLimitIs413InAnyEncoding) {
  options_.request_bytes_max = 20000;
  auto server = StartServer(options_);
  std::string large(300000, ' ');
  auto plain = Client(*server)->Post(kInfer, large, "application/json");
  ASSERT_TRUE(plain) << httplib::to_string(plain.error());
  EXPECT_EQ(plain->status, 413);
  EXPECT_THAT(plain->body, HasSubstr("larger than 20000 bytes"));

  auto zipped_client = Client(*server);
  zipped_client->set_compress(true);
  auto zipped = zipped_client->Post(kInfer, large, "application/json");
  ASSERT_TRUE(zipped) << httplib::to_string(zipped.error());
  EXPECT_EQ(zipped->status, 413);

  auto chunked = Client(*server)->Post(
      kInfer,
      [&](size_t offset, httplib::DataSink& sink) {
        if (offset < large.size()) return sink.write(large.data(), 10000);
        sink.done();
        return true;
      },
      "application/json");
  ASSERT_TRUE(chunked) << httplib::to_string(chunked.error());
  EXPECT_EQ(chunked->status, 413);

  auto small_client = Client(*server);
  small_client->set_compress(true);
  auto small = small_client->Post(kInfer, Request().dump(), "application/json");
  ASSERT_TRUE(small);
  EXPECT_EQ(small->status, 200) << small->body;
}

TEST_F(HttpServerTest, WithATokenOnlyItsBearersAreAnswered) {
  options_.token = "s3cret";
  auto server = StartServer(options_);
  for (const char* header : {"", "Bearer s3cre", "Bearer s3cret2", "Basic s3cret"}) {
    httplib::Headers headers;
    if (*header != '\0') headers.emplace("Authorization", header);
    for (const char* path : {"/v2/models/clicks", "/metrics", "/nowhere"}) {
      auto result = Client(*server)->Get(path, headers);
      ASSERT_TRUE(result);
      EXPECT_EQ(result->status, 401) << header;
    }
    auto post = Client(*server)->Post(kInfer, headers, Request().dump(), "application/json");
    ASSERT_TRUE(post);
    EXPECT_EQ(post->status, 401) << header;
  }
  auto ready = Client(*server)->Get("/v2/health/ready");
  ASSERT_TRUE(ready);
  EXPECT_EQ(ready->status, 200);
  httplib::Headers headers = {{"Authorization", "Bearer s3cret"}};
  auto post = Client(*server)->Post(kInfer, headers, Request().dump(), "application/json");
  ASSERT_TRUE(post);
  EXPECT_EQ(post->status, 200);
}

TEST_F(HttpServerTest, WhatCannotBeServedIsRefusedAtTheStart) {
  auto refused = [](const ServeOptions& options) { return HttpServer::Start(options).status(); };
  for (const char* address : {"0.0.0.0", "::", "192.168.1.1", "example.org"}) {
    ServeOptions open = options_;
    open.address = address;
    EXPECT_TRUE(absl::IsInvalidArgument(refused(open))) << address;
    EXPECT_THAT(std::string(refused(open).message()), HasSubstr("token"));
  }
  ServeOptions absent = options_;
  absent.bundle = root_ + "/absent";
  EXPECT_TRUE(absl::IsNotFound(refused(absent))) << refused(absent);
  EXPECT_THAT(std::string(refused(absent).message()), HasSubstr(absent.bundle));

  auto first = StartServer(options_);
  ServeOptions second = options_;
  second.port = first->port();
  EXPECT_TRUE(absl::IsInvalidArgument(refused(second)));
  EXPECT_THAT(std::string(refused(second).message()),
              HasSubstr(absl::StrCat("127.0.0.1:", first->port(), ": the port is in use")));

  ServeOptions corrupt = options_;
  corrupt.bundle = BundleVersionDir(root_, 1);
  ASSERT_TRUE(WriteFileAtomically(JoinPath(corrupt.bundle, "dense.bin"), "x").ok());
  EXPECT_TRUE(absl::IsDataLoss(refused(corrupt)));
  EXPECT_THAT(std::string(refused(corrupt).message()), HasSubstr("dense.bin"));
}

TEST_F(HttpServerTest, NoRequestFailsWhileVersionsAreSwapped) {
  constexpr int kClients = 8, kVersions = 20;
  std::vector<std::vector<float>> want(kVersions + 2);
  std::string staging = TestDir("staging");
  for (int v = 1; v <= kVersions + 1; ++v) {
    ASSERT_TRUE(WriteTestBundle(BundleVersionDir(staging, v), v).ok());
    want[v] = Scores(BundleVersionDir(staging, v), Request());
    ASSERT_NE(want[v], want[v - 1]);
  }
  // Holds requests between score and answer, so that versions change right there.
  SetSyncPointHandler([](absl::string_view name) {
    if (name == "serving:scored") std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  auto server = StartServer(options_);
  std::atomic<bool> done{false};
  std::atomic<int> answers{0}, failures{0}, versions_seen{0};
  auto client_loop = [&] {
    auto client = Client(*server);
    int last = 0;
    while (!done) {
      auto result = client->Post(kInfer, Request().dump(), "application/json");
      bool ok = result && result->status == 200;
      if (ok) {
        Json json = Json::parse(result->body);
        int version = std::stoi(json["model_version"].get<std::string>());
        ok = json["outputs"][0]["data"].get<std::vector<float>>() == want[version] &&
             version >= last;
        if (version != last) ++versions_seen;
        last = version;
      }
      ok ? ++answers : ++failures;
    }
  };
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) clients.emplace_back(client_loop);
  for (int v = 2; v <= kVersions + 1; ++v) {
    ASSERT_TRUE(WriteTestBundle(BundleVersionDir(root_, v), v).ok());
    WaitForVersion(*server, v);
    int before = answers;
    while (answers < before + kClients) std::this_thread::yield();
  }
  done = true;
  for (std::thread& client : clients) client.join();
  SetSyncPointHandler(nullptr);
  EXPECT_EQ(failures, 0);
  EXPECT_GE(answers, kClients * kVersions);
  EXPECT_GE(versions_seen, kVersions);
  EXPECT_TRUE(RemoveAll(staging).ok());
}

TEST_F(HttpServerTest, AVersionThatCannotBeServedIsSkipped) {
  Counter& failures = GetCounter("starling_serving_load_failures_total", "");
  double before = failures.Value();
  auto server = StartServer(options_);
  std::string corrupt = BundleVersionDir(root_, 2);
  std::string staging = TestDir("skipped_staging");
  ASSERT_TRUE(WriteTestBundle(staging, 2).ok());
  ASSERT_TRUE(WriteFileAtomically(JoinPath(staging, "graph.json"), "{}").ok());
  ASSERT_TRUE(RenamePath(staging, corrupt).ok());
  BundleSpec other = TestSpec(3);
  other.info.set_model("views");
  ASSERT_TRUE(WriteBundle(BundleVersionDir(root_, 3), other, TestDense(other), TestRows(3)).ok());
  BundleSpec poorer = TestSpec(4);
  poorer.features.mutable_raws()->RemoveLast();
  poorer.graph.mutable_raws()->RemoveLast();
  ASSERT_TRUE(WriteBundle(BundleVersionDir(root_, 4), poorer, TestDense(poorer), TestRows(4)).ok());
  while (failures.Value() < before + 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(server->version(), 1u);
  auto result = Client(*server)->Post(kInfer, Request().dump(), "application/json");
  ASSERT_TRUE(result);
  EXPECT_EQ(Json::parse(result->body)["model_version"], "1");
  ASSERT_TRUE(WriteTestBundle(BundleVersionDir(root_, 5), 5).ok());
  WaitForVersion(*server, 5);
}

TEST_F(HttpServerTest, ARestartFallsBackToTheNewestVersionThatLoads) {
  ASSERT_TRUE(WriteTestBundle(BundleVersionDir(root_, 2), 2).ok());
  ASSERT_TRUE(WriteFileAtomically(JoinPath(BundleVersionDir(root_, 2), "dense.bin"), "x").ok());
  auto server = StartServer(options_);
  EXPECT_EQ(server->version(), 1u);
}

TEST_F(HttpServerTest, StopAnswersWhatIsUnderWayAndLeavesIdleConnections) {
  options_.threads = 1;
  auto server = StartServer(options_);
  int port = server->port();
  auto idle = Client(*server);
  ASSERT_TRUE(idle->Get("/healthz"));
  std::atomic<int> answered{0}, refused{0}, broken{0};
  std::atomic<bool> stopped{false};
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&] {
      while (!stopped) {
        httplib::Client client("127.0.0.1", port);
        auto result = client.Post(kInfer, Request().dump(), "application/json");
        if (result && result->status == 200) {
          ++answered;
        } else if (result.error() == httplib::Error::Connection) {
          ++refused;
        } else {
          ++broken;  // Connected in the kernel's queue, but never accepted.
        }
      }
    });
  }
  while (answered < 20) std::this_thread::yield();
  server.reset();  // Hangs for a minute if the idle connection were waited for.
  stopped = true;
  for (std::thread& client : clients) client.join();
  EXPECT_FALSE(idle->Get("/healthz"));
  EXPECT_LE(broken, 8);
}

TEST_F(HttpServerTest, MoreConnectionsThanThreadsAreServed) {
  options_.threads = 1;
  auto server = StartServer(options_);
  std::vector<std::unique_ptr<httplib::Client>> clients;
  for (int i = 0; i < 40; ++i) {
    clients.push_back(Client(*server));  // Kept alive: each holds its connection.
    auto result = clients.back()->Post(kInfer, Request().dump(), "application/json");
    ASSERT_TRUE(result) << i;
    EXPECT_EQ(result->status, 200);
  }
}

TEST(ModelHostTest, AVersionLivesUntilItsLastRequest) {
  std::string root = TestDir("host");
  ASSERT_TRUE(WriteTestBundle(BundleVersionDir(root, 1), 1).ok());
  auto host = ModelHost::Open(root, 0.005);
  ASSERT_TRUE(host.ok()) << host.status();
  std::shared_ptr<const Predictor> request = (*host)->current();
  std::weak_ptr<const Predictor> old = request;
  ASSERT_TRUE(WriteTestBundle(BundleVersionDir(root, 2), 2).ok());
  while ((*host)->current()->bundle().spec().info.version() != 2) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_FALSE(old.expired());
  EXPECT_EQ(request->bundle().spec().info.version(), 1u);
  request.reset();
  EXPECT_TRUE(old.expired());
  EXPECT_TRUE(RemoveAll(root).ok());
}

}  // namespace
}  // namespace starling
