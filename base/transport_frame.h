// Frames of the baidu_std protocol, apart from any socket: bytes in, frames
// out, and back. base/baidu_std.proto describes them.
//
// Not thread-safe: a reader belongs to one connection.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/baidu_std.pb.h"

namespace starling {

struct RpcFrame {
  BaiduRpcMeta meta;
  std::string body;
  std::string attachment;

  int64_t bytes() const { return static_cast<int64_t>(body.size() + attachment.size()); }
};

// What stands before body and attachment on the wire: header and meta, whose
// attachment_size is filled in. InvalidArgument if the frame is larger than
// the protocol can express (2 GiB of attachment, 4 GiB in all).
absl::StatusOr<std::string> EncodeFrameHead(const RpcFrame& frame);

// Cuts a stream of bytes into frames. Large parts are received in place: the
// caller reads into Space(), which is then the frame's own memory.
class FrameReader {
 public:
  explicit FrameReader(int64_t frame_bytes_max) : frame_bytes_max_(frame_bytes_max) {}

  // Where the next bytes belong. Never empty; valid until Advance. Memory
  // grows with what has arrived, not with what a header claims.
  std::span<char> Space();
  // The first `n` bytes of Space() were filled. Calls `fn` for every frame
  // they complete. InvalidArgument, for good, if they are no frame or one
  // larger than allowed.
  absl::Status Advance(size_t n, const std::function<void(RpcFrame)>& fn);

 private:
  enum class Part { kHeader, kMeta, kBody, kAttachment };

  absl::Status ReadHeader();
  absl::Status NextPart(const std::function<void(RpcFrame)>& fn);
  void Expect(Part part, std::string* target, size_t bytes);

  const int64_t frame_bytes_max_;
  // Bytes read ahead that belong to no part yet, at [begin_, end_).
  std::string ahead_;
  size_t begin_ = 0, end_ = 0;
  // The part being filled: `have_` of `want_` bytes.
  Part part_ = Part::kHeader;
  std::string* target_ = nullptr;
  size_t have_ = 0, want_ = 0;
  bool direct_ = false;  // Space() was inside target_.
  size_t payload_ = 0;   // Body and attachment of this frame.
  std::string meta_;
  RpcFrame frame_;
};

// Status codes on the wire: 10000 + the absl code, so that our own programs
// get back the very code they sent. From other servers brpc's own codes are
// understood (no such method, timed out, …); the rest is Unknown.
int ErrorCodeOf(const absl::Status& status);
absl::Status StatusOfError(int error_code, const std::string& text);

}  // namespace starling
