#include "base/transport_frame.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/random.h"
#include "gtest/gtest.h"

namespace starling {
namespace {

constexpr int64_t kMax = 1 << 20;

RpcFrame Request(int64_t id, std::string body, std::string attachment) {
  RpcFrame frame;
  frame.meta.mutable_request()->set_service_name("EchoService");
  frame.meta.mutable_request()->set_method_name("Echo");
  frame.meta.set_correlation_id(id);
  frame.body = std::move(body);
  frame.attachment = std::move(attachment);
  return frame;
}

std::string Encode(const RpcFrame& frame) {
  return *EncodeFrameHead(frame) + frame.body + frame.attachment;
}

// Feeds `bytes` in pieces of at most `piece`.
absl::Status Feed(FrameReader& reader, const std::string& bytes, size_t piece,
                  std::vector<RpcFrame>* frames) {
  for (size_t i = 0; i < bytes.size();) {
    std::span<char> space = reader.Space();
    size_t n = std::min({space.size(), piece, bytes.size() - i});
    std::memcpy(space.data(), bytes.data() + i, n);
    absl::Status status =
        reader.Advance(n, [&](RpcFrame frame) { frames->push_back(std::move(frame)); });
    if (!status.ok()) return status;
    i += n;
  }
  return absl::OkStatus();
}

// What a brpc client puts on the wire for this call.
TEST(FrameTest, BytesAreThoseOfBaiduStd) {
  const char wire[] =
      "PRPC\x00\x00\x00\x1e\x00\x00\x00\x19"
      "\x0a\x13\x0a\x0b"
      "EchoService"
      "\x12\x04"
      "Echo"
      "\x20\x07\x28\x03"
      "hi"
      "abc";
  EXPECT_EQ(Encode(Request(7, "hi", "abc")), std::string(wire, sizeof(wire) - 1));
}

TEST(FrameTest, AnyCuttingOfTheStreamGivesTheSameFrames) {
  std::vector<RpcFrame> sent;
  std::string wire;
  for (size_t bytes : {0, 1, 5, 5000, 20000, 100000}) {
    sent.push_back(Request(bytes, std::string(bytes / 2, 'b'), std::string(bytes, 'a')));
    wire += Encode(sent.back());
  }
  for (size_t piece : {1, 7, 13, 4096, 1 << 20}) {
    FrameReader reader(kMax);
    std::vector<RpcFrame> got;
    ASSERT_TRUE(Feed(reader, wire, piece, &got).ok());
    ASSERT_EQ(got.size(), sent.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].meta.correlation_id(), sent[i].meta.correlation_id());
      EXPECT_EQ(got[i].meta.request().method_name(), "Echo");
      EXPECT_EQ(got[i].body, sent[i].body);
      EXPECT_EQ(got[i].attachment, sent[i].attachment);
    }
  }
}

TEST(FrameTest, OversizeFrameIsRefusedByItsHeader) {
  FrameReader reader(1000);
  std::vector<RpcFrame> got;
  std::string wire = Encode(Request(1, "", std::string(2000, 'a')));
  EXPECT_EQ(Feed(reader, wire.substr(0, 12), 12, &got).code(), absl::StatusCode::kInvalidArgument);
}

TEST(FrameTest, ContradictorySizesAreRefused) {
  RpcFrame frame = Request(1, "body", "");
  frame.meta.set_attachment_size(5);  // More than the payload.
  std::vector<RpcFrame> got;
  FrameReader more(kMax), negative(kMax), meta(kMax);
  EXPECT_FALSE(Feed(more, Encode(frame), 100, &got).ok());
  frame.meta.set_attachment_size(-1);
  EXPECT_FALSE(Feed(negative, Encode(frame), 100, &got).ok());
  std::string wire = Encode(Request(1, "body", ""));
  wire[11] = '\x7f';  // Meta larger than the frame.
  EXPECT_FALSE(Feed(meta, wire, 100, &got).ok());
  EXPECT_TRUE(got.empty());
}

// A header may claim 1 MiB: memory is taken as bytes come, and what is cut
// short completes no frame.
TEST(FrameTest, RandomBytesNeverCrashTheReader) {
  const std::string good = Encode(Request(3, "body", std::string(300, 'a')));
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    std::string wire = good + good;
    for (uint64_t i = 0; i < 4; ++i) {
      wire[RandomBelow(seed, 2 * i, wire.size())] = static_cast<char>(RandomBits(seed, 2 * i + 1));
    }
    FrameReader reader(kMax);
    std::vector<RpcFrame> got;
    (void)Feed(reader, wire, 1 + seed % 50, &got);
    EXPECT_LE(got.size(), 2u);
  }
}

TEST(FrameTest, EveryStatusCodeComesBackAsItself) {
  EXPECT_EQ(ErrorCodeOf(absl::OkStatus()), 0);
  EXPECT_TRUE(StatusOfError(0, "").ok());
  for (int code = 1; code <= 16; ++code) {
    absl::Status status(static_cast<absl::StatusCode>(code), "why");
    EXPECT_EQ(StatusOfError(ErrorCodeOf(status), "why"), status);
  }
  EXPECT_EQ(StatusOfError(1002, "no Echo").code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(StatusOfError(77, "odd").code(), absl::StatusCode::kUnknown);
}

}  // namespace
}  // namespace starling
