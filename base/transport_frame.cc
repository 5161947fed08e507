#include "base/transport_frame.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace starling {
namespace {

constexpr char kMagic[] = "PRPC";
constexpr size_t kHeaderBytes = 12;
constexpr size_t kMetaBytesMax = 1 << 20;
constexpr size_t kAheadBytes = 16 << 10;
constexpr size_t kDirectBytes = 4 << 10;  // Less is not worth a read of its own.
constexpr size_t kFirstBytes = 4 << 20;   // Taken before any of them arrived.
constexpr int kErrorBase = 10000;

void PutBigEndian(uint32_t value, char* out) {
  for (int i = 0; i < 4; ++i) out[i] = static_cast<char>(value >> (24 - 8 * i));
}

uint32_t GetBigEndian(const char* in) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(in[i]);
  return value;
}

}  // namespace

absl::StatusOr<std::string> EncodeFrameHead(const RpcFrame& frame) {
  if (frame.attachment.size() > std::numeric_limits<int32_t>::max() ||
      frame.bytes() > std::numeric_limits<uint32_t>::max() - kMetaBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("a message of ", frame.bytes(), " bytes is too large for one frame"));
  }
  BaiduRpcMeta meta = frame.meta;
  if (!frame.attachment.empty()) {
    meta.set_attachment_size(static_cast<int32_t>(frame.attachment.size()));
  }
  std::string head(kHeaderBytes, '\0');
  meta.AppendToString(&head);
  size_t meta_bytes = head.size() - kHeaderBytes;
  if (meta_bytes > kMetaBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("names or error text of ", meta_bytes, " bytes"));
  }
  std::memcpy(head.data(), kMagic, 4);
  PutBigEndian(static_cast<uint32_t>(meta_bytes + frame.bytes()), head.data() + 4);
  PutBigEndian(static_cast<uint32_t>(meta_bytes), head.data() + 8);
  return head;
}

std::span<char> FrameReader::Space() {
  direct_ = part_ != Part::kHeader && begin_ == end_ && want_ - have_ >= kDirectBytes;
  if (direct_) {
    if (have_ == target_->size())
      target_->resize(std::min(want_, std::max(2 * have_, kFirstBytes)));
    return {target_->data() + have_, target_->size() - have_};
  }
  if (ahead_.empty()) ahead_.resize(kAheadBytes);
  std::memmove(ahead_.data(), ahead_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  return {ahead_.data() + end_, ahead_.size() - end_};
}

absl::Status FrameReader::Advance(size_t n, const std::function<void(RpcFrame)>& fn) {
  (direct_ ? have_ : end_) += n;
  while (true) {
    if (part_ == Part::kHeader) {
      if (end_ - begin_ < kHeaderBytes) return absl::OkStatus();
      RETURN_IF_ERROR(ReadHeader());
    }
    size_t take = std::min(end_ - begin_, want_ - have_);
    if (target_->size() < have_ + take) target_->resize(have_ + take);
    std::memcpy(target_->data() + have_, ahead_.data() + begin_, take);
    have_ += take;
    begin_ += take;
    if (have_ < want_) return absl::OkStatus();
    RETURN_IF_ERROR(NextPart(fn));
  }
}

absl::Status FrameReader::ReadHeader() {
  const char* header = ahead_.data() + begin_;
  if (std::memcmp(header, kMagic, 4) != 0) {
    return absl::InvalidArgumentError("not the baidu_std protocol: a frame must start with PRPC");
  }
  uint32_t bytes = GetBigEndian(header + 4), meta_bytes = GetBigEndian(header + 8);
  if (bytes > frame_bytes_max_ || meta_bytes > bytes || meta_bytes > kMetaBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("a frame of ", bytes, " bytes with a meta of ",
                                                   meta_bytes, "; at most ", frame_bytes_max_,
                                                   " are allowed"));
  }
  begin_ += kHeaderBytes;
  payload_ = bytes - meta_bytes;
  Expect(Part::kMeta, &meta_, meta_bytes);
  return absl::OkStatus();
}

void FrameReader::Expect(Part part, std::string* target, size_t bytes) {
  part_ = part;
  target_ = target;
  target_->clear();
  have_ = 0;
  want_ = bytes;
}

absl::Status FrameReader::NextPart(const std::function<void(RpcFrame)>& fn) {
  if (part_ == Part::kMeta) {
    if (!frame_.meta.ParseFromString(meta_) || frame_.meta.attachment_size() < 0 ||
        static_cast<size_t>(frame_.meta.attachment_size()) > payload_) {
      return absl::InvalidArgumentError(
          "a frame whose meta cannot be read or contradicts its size");
    }
    Expect(Part::kBody, &frame_.body, payload_ - frame_.meta.attachment_size());
  } else if (part_ == Part::kBody) {
    Expect(Part::kAttachment, &frame_.attachment, frame_.meta.attachment_size());
  } else {
    part_ = Part::kHeader;
    fn(std::move(frame_));
    frame_ = RpcFrame();
  }
  return absl::OkStatus();
}

int ErrorCodeOf(const absl::Status& status) {
  return status.ok() ? 0 : kErrorBase + static_cast<int>(status.code());
}

absl::Status StatusOfError(int error_code, const std::string& text) {
  if (error_code == 0) return absl::OkStatus();
  if (error_code > kErrorBase && error_code <= kErrorBase + 16) {
    return absl::Status(static_cast<absl::StatusCode>(error_code - kErrorBase), text);
  }
  std::string message = absl::StrCat(text, " (brpc error ", error_code, ")");
  switch (error_code) {
    case 1001:  // ENOSERVICE
    case 1002:  // ENOMETHOD
      return absl::UnimplementedError(message);
    case 1003:  // EREQUEST
      return absl::InvalidArgumentError(message);
    case 1004:  // ERPCAUTH
      return absl::UnauthenticatedError(message);
    case 1008:  // ERPCTIMEDOUT
      return absl::DeadlineExceededError(message);
    case 2001:  // EINTERNAL
      return absl::InternalError(message);
    case 2003:  // ELOGOFF
      return absl::UnavailableError(message);
    case 2004:  // ELIMIT
      return absl::ResourceExhaustedError(message);
    default:
      return absl::UnknownError(message);
  }
}

}  // namespace starling
