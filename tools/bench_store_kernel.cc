// The references of `bench store`: what the memory allows when a row's place
// is known, or costs one line of an index. Every access is prefetched far
// enough ahead that a core always has its fill of misses under way. Compiled
// once per instruction set (starling_kernel).
#include <Eigen/Core>
#include <cstdint>

#define STARLING_JOIN2(a, b) a##b
#define STARLING_JOIN(a, b) STARLING_JOIN2(a, b)
#define KERNEL(name) STARLING_JOIN(name, STARLING_ISA)

namespace starling {
namespace {

constexpr int kDim = 16, kHeader = 20;
constexpr size_t kRowAhead = 24, kLineAhead = 64, kRing = 128;

using Floats = Eigen::Array<float, kDim, 1>;
using Map = Eigen::Map<Floats>;
using ConstMap = Eigen::Map<const Floats>;

// Calls use(i, address of row i's weights) in order, rows prefetched. With
// entries, at[i] is where the row's number stands among them; else it is the number.
template <bool kWrite, int kFloats, typename Use>
inline void ForRows(char* base, size_t stride, const uint32_t* entries, const uint32_t* at,
                    size_t n, Use use) {
  uint32_t ring[kRing];
  auto ask_line = [&](size_t i) { __builtin_prefetch(entries + at[i]); };
  auto ask_row = [&](size_t i) {
    uint32_t row = entries == nullptr ? at[i] : entries[at[i]];
    ring[i % kRing] = row;
    const char* p = base + row * stride + kHeader;
    constexpr int kLast = kFloats * 4 - 1;
    for (int offset = 0; offset < kLast; offset += 64) __builtin_prefetch(p + offset, kWrite);
    __builtin_prefetch(p + kLast, kWrite);
  };
  if (entries != nullptr) {
    for (size_t i = 0; i < n && i < kLineAhead; ++i) ask_line(i);
  }
  for (size_t i = 0; i < n && i < kRowAhead; ++i) ask_row(i);
  for (size_t i = 0; i < n; ++i) {
    if (entries != nullptr && i + kLineAhead < n) ask_line(i + kLineAhead);
    if (i + kRowAhead < n) ask_row(i + kRowAhead);
    use(i, reinterpret_cast<float*>(base + ring[i % kRing] * stride + kHeader));
  }
}

}  // namespace

// Copies the weights of n rows to `out` (n, 16).
void KERNEL(BareGather_)(char* base, size_t stride, const uint32_t* entries, const uint32_t* at,
                         size_t n, float* out) {
  auto copy = [out](size_t i, const float* w) { Map(out + i * kDim) = ConstMap(w); };
  if (entries == nullptr) {
    ForRows<false, kDim>(base, stride, nullptr, at, n, copy);
  } else {
    ForRows<false, kDim>(base, stride, entries, at, n, copy);
  }
}

// A step of AdaGrad on n rows of weights and state, in place.
void KERNEL(BareAdagrad_)(char* base, size_t stride, const uint32_t* entries, const uint32_t* at,
                          size_t n, const float* grads) {
  auto step = [grads](size_t i, float* w) {
    ConstMap g(grads + i * kDim);
    Map weights(w), state(w + kDim);
    state += g.square();
    weights -= 0.01f * g / (state.sqrt() + 1e-10f);
  };
  if (entries == nullptr) {
    ForRows<true, 2 * kDim>(base, stride, nullptr, at, n, step);
  } else {
    ForRows<true, 2 * kDim>(base, stride, entries, at, n, step);
  }
}

}  // namespace starling
