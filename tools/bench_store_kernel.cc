// The references of `bench store`: what the memory allows when a row's place
// is known, or costs one line of an index. Rows are asked for some rows ahead of their use, and
// lines some rows before that: into L1 or, further ahead, into L2. Which of these forms is
// faster depends on the processor. Compiled once per instruction set (starling_kernel).
#include <Eigen/Core>
#include <cstdint>

#define STARLING_JOIN2(a, b) a##b
#define STARLING_JOIN(a, b) STARLING_JOIN2(a, b)
#define KERNEL(name) STARLING_JOIN(name, STARLING_ISA)

namespace starling {
namespace {

constexpr int kDim = 16, kHeader = 20;
constexpr size_t kRing = 128;

using Floats = Eigen::Array<float, kDim, 1>;
using Map = Eigen::Map<Floats>;
using ConstMap = Eigen::Map<const Floats>;

struct IntoL1 {
  static constexpr size_t kRowAhead = 24, kLineAhead = 64;
  void operator()(const void* p) const {
    asm volatile("prefetcht0 %0" : : "m"(*static_cast<const char*>(p)));
  }
};
struct IntoL2 {
  static constexpr size_t kRowAhead = 64, kLineAhead = 128;
  void operator()(const void* p) const {
    asm volatile("prefetcht1 %0" : : "m"(*static_cast<const char*>(p)));
  }
};
// The lines of so many floats.
template <int kFloats, typename Ask>
inline void AskRow(const char* weights, Ask ask) {
  constexpr int kLast = kFloats * 4 - 1;
  for (int offset = 0; offset < kLast; offset += 64) ask(weights + offset);
  ask(weights + kLast);
}

// Calls use(i, address of row i's weights) in order, rows prefetched. With
// entries, at[i] is where the row's number stands among them; else it is the number.
template <bool kIndexed, int kFloats, typename Ask, typename Use>
inline void ForRows(Ask ask, char* base, size_t stride, const uint32_t* entries, const uint32_t* at,
                    size_t n, Use use) {
  char* ring[kRing];
  auto ask_row = [&](size_t i) {
    ring[i % kRing] = base + (kIndexed ? entries[at[i]] : at[i]) * stride + kHeader;
    AskRow<kFloats>(ring[i % kRing], ask);
  };
  for (size_t i = 0; kIndexed && i < n && i < ask.kLineAhead; ++i) ask(entries + at[i]);
  for (size_t i = 0; i < n && i < ask.kRowAhead; ++i) ask_row(i);
  for (size_t i = 0; i < n; ++i) {
    if (kIndexed && i + ask.kLineAhead < n) ask(entries + at[i + ask.kLineAhead]);
    if (i + ask.kRowAhead < n) ask_row(i + ask.kRowAhead);
    use(i, reinterpret_cast<float*>(ring[i % kRing]));
  }
}
template <int kFloats, typename Use>
inline void For(bool l2, char* base, size_t stride, const uint32_t* entries, const uint32_t* at,
                size_t n, Use use) {
  if (entries == nullptr) {
    return l2 ? ForRows<false, kFloats>(IntoL2(), base, stride, entries, at, n, use)
              : ForRows<false, kFloats>(IntoL1(), base, stride, entries, at, n, use);
  }
  return l2 ? ForRows<true, kFloats>(IntoL2(), base, stride, entries, at, n, use)
            : ForRows<true, kFloats>(IntoL1(), base, stride, entries, at, n, use);
}

}  // namespace

// Copies the weights of n rows to `out` (n, 16).
void KERNEL(BareGather_)(bool l2, char* base, size_t stride, const uint32_t* entries,
                         const uint32_t* at, size_t n, float* out) {
  For<kDim>(l2, base, stride, entries, at, n,
            [out](size_t i, const float* w) { Map(out + i * kDim) = ConstMap(w); });
}

// A step of AdaGrad on n rows of weights and state, in place.
void KERNEL(BareAdagrad_)(bool l2, char* base, size_t stride, const uint32_t* entries,
                          const uint32_t* at, size_t n, const float* grads) {
  For<2 * kDim>(l2, base, stride, entries, at, n, [grads](size_t i, float* w) {
    ConstMap g(grads + i * kDim);
    Map weights(w), state(w + kDim);
    state += g.square();
    weights -= 0.01f * g / (state.sqrt() + 1e-10f);
  });
}

}  // namespace starling
