#include "embedding_store/weight_type.h"

namespace starling {

// An id, an event time and a counter stand before the floats; a slot of the
// index, which is never full, is about twice its four bytes.
constexpr int kRowHeaderBytes = 20;
constexpr int kIndexBytes = 8;

FloatType WeightType(const TableOptions& options) {
  switch (options.dtype()) {
    case TableOptions::FP32:
      return FloatType::kFp32;
    case TableOptions::FP16:
      return FloatType::kFp16;
    case TableOptions::BF16:
      return FloatType::kBf16;
    case TableOptions::INT8:
      return FloatType::kInt8;
  }
  __builtin_unreachable();
}

int WeightBytes(FloatType type, const RowLayout& layout) {
  int bytes = 0;
  for (const Segment& segment : layout.segments()) bytes += EncodedBytes(type, segment.dim);
  return bytes;
}

int64_t RowMemoryBytes(const TableOptions& options, const RowLayout& layout) {
  return kRowHeaderBytes + kIndexBytes + WeightBytes(WeightType(options), layout) +
         int64_t{sizeof(float)} * layout.state_size();
}

}  // namespace starling
