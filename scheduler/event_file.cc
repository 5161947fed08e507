#include "scheduler/event_file.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "base/status.h"

namespace starling {
namespace {

// The four fields of tensorflow.Event and Summary.Value that scalars need,
// written by hand: field number and wire type, then the value.
void PutVarint(std::string* out, uint64_t v) {
  for (; v >= 0x80; v >>= 7) out->push_back(static_cast<char>(v | 0x80));
  out->push_back(static_cast<char>(v));
}
template <typename T>
void PutFixed(std::string* out, T v) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &v, sizeof(T));
  out->append(bytes, sizeof(T));
}
void PutBytes(std::string* out, int field, absl::string_view bytes) {
  PutVarint(out, field << 3 | 2);
  PutVarint(out, bytes.size());
  out->append(bytes.data(), bytes.size());
}

std::string EventHeader(int64_t step) {
  std::string event;
  PutVarint(&event, 1 << 3 | 1);  // double wall_time = 1
  PutFixed(&event, absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()));
  PutVarint(&event, 2 << 3 | 0);  // int64 step = 2
  PutVarint(&event, static_cast<uint64_t>(step));
  return event;
}

uint32_t Masked(absl::string_view bytes) {
  uint32_t crc = Crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
}

std::string Record(absl::string_view event) {
  std::string out;
  PutFixed<uint64_t>(&out, event.size());
  PutFixed(&out, Masked(out));
  out.append(event.data(), event.size());
  PutFixed(&out, Masked(event));
  return out;
}

class EventFileImpl : public EventFile {
 public:
  explicit EventFileImpl(std::unique_ptr<WritableFile> file) : file_(std::move(file)) {}

  absl::Status Scalar(absl::string_view tag, int64_t step, double value) override {
    std::string v;
    PutBytes(&v, 1, tag);       // string tag = 1
    PutVarint(&v, 2 << 3 | 5);  // float simple_value = 2
    PutFixed(&v, static_cast<float>(value));
    std::string summary, event = EventHeader(step);
    PutBytes(&summary, 1, v);      // repeated Value value = 1
    PutBytes(&event, 5, summary);  // Summary summary = 5
    return Write(event);
  }

  absl::Status Write(absl::string_view event) {
    RETURN_IF_ERROR(file_->Append(Record(event)));
    return file_->Flush();
  }

 private:
  std::unique_ptr<WritableFile> file_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<EventFile>> EventFile::Create(const std::string& dir) {
  RETURN_IF_ERROR(MakeDirs(dir));
  std::string name =
      absl::StrCat("events.out.tfevents.", absl::ToUnixMicros(absl::Now()), ".", getpid());
  ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, CreateFile(JoinPath(dir, name)));
  auto events = std::make_unique<EventFileImpl>(std::move(file));
  std::string version = EventHeader(0);
  PutBytes(&version, 3, "brain.Event:2");  // string file_version = 3
  RETURN_IF_ERROR(events->Write(version));
  return events;
}

}  // namespace starling
