// Where the record batches of Arrow IPC stand, found by the messages' headers alone.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace arrow {
class Buffer;
template <typename T>
class Result;
namespace io {
class RandomAccessFile;
}
}  // namespace arrow

namespace starling {

struct IpcBatch {
  std::shared_ptr<arrow::Buffer> header;
  int64_t offset = 0, bytes = 0;  // Of the body, in the file.
};

struct IpcBatches {
  std::vector<IpcBatch> batches;  // In their order.
  bool ended = false;             // By an end mark, rather than by the end of the file.
};

// Those of the messages from `begin` on. A body lies within the file.
arrow::Result<IpcBatches> FindBatches(arrow::io::RandomAccessFile& file, int64_t begin);

// The body of a batch as a file of its own, of which columns can be read one by one. A
// buffer that claims to be larger than the body is refused. `file` must outlive it.
std::unique_ptr<arrow::io::RandomAccessFile> BodyOf(const IpcBatch& batch,
                                                    arrow::io::RandomAccessFile* file);

}  // namespace starling
