// The references of `bench store`: what the memory allows when a row's place
// is known, or costs one line of an index. There are two forms of each: `passes` asks
// for some hundred lines, then rows, into L2 before it uses them; the other asks for each row into
// L1 some rows ahead of its use. Which one is faster depends on the processor. Compiled
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
constexpr size_t kPass = 256;  // Rows.

using Floats = Eigen::Array<float, kDim, 1>;
using Map = Eigen::Map<Floats>;
using ConstMap = Eigen::Map<const Floats>;

inline void AskIntoL1(const void* p) {
  asm volatile("prefetcht0 %0" : : "m"(*static_cast<const char*>(p)));
}
inline void AskIntoL2(const void* p) {
  asm volatile("prefetcht1 %0" : : "m"(*static_cast<const char*>(p)));
}
// The lines of so many floats.
template <int kFloats, typename Ask>
inline void AskRow(const char* weights, Ask ask) {
  constexpr int kLast = kFloats * 4 - 1;
  for (int offset = 0; offset < kLast; offset += 64) ask(weights + offset);
  ask(weights + kLast);
}

// Calls use(i, address of row i's weights) in order, rows prefetched. With
// entries, at[i] is where the row's number stands among them; else it is the number.
template <bool kIndexed, int kFloats, typename Use>
inline void ForRows(char* base, size_t stride, const uint32_t* entries, const uint32_t* at,
                    size_t n, Use use) {
  char* ring[kRing];
  auto ask_row = [&](size_t i) {
    ring[i % kRing] = base + (kIndexed ? entries[at[i]] : at[i]) * stride + kHeader;
    AskRow<kFloats>(ring[i % kRing], AskIntoL1);
  };
  for (size_t i = 0; kIndexed && i < n && i < kLineAhead; ++i) AskIntoL1(entries + at[i]);
  for (size_t i = 0; i < n && i < kRowAhead; ++i) ask_row(i);
  for (size_t i = 0; i < n; ++i) {
    if (kIndexed && i + kLineAhead < n) AskIntoL1(entries + at[i + kLineAhead]);
    if (i + kRowAhead < n) ask_row(i + kRowAhead);
    use(i, reinterpret_cast<float*>(ring[i % kRing]));
  }
}
template <bool kIndexed, int kFloats, typename Use>
inline void ForPasses(char* base, size_t stride, const uint32_t* entries, const uint32_t* at,
                      size_t n, Use use) {
  char* rows[kPass];
  auto ask_lines = [&](size_t begin) {
    const size_t end = begin + kPass < n ? begin + kPass : n;
    for (size_t i = begin; kIndexed && i < end; ++i) AskIntoL2(entries + at[i]);
  };
  ask_lines(0);
  for (size_t begin = 0; begin < n; begin += kPass) {
    const size_t end = begin + kPass < n ? begin + kPass : n;
    for (size_t i = begin; i < end; ++i) {
      rows[i - begin] = base + (kIndexed ? entries[at[i]] : at[i]) * stride + kHeader;
      AskRow<kFloats>(rows[i - begin], AskIntoL2);
    }
    ask_lines(end);
    for (size_t i = begin; i < end; ++i) use(i, reinterpret_cast<float*>(rows[i - begin]));
  }
}
template <int kFloats, typename Use>
inline void For(bool passes, char* base, size_t stride, const uint32_t* entries, const uint32_t* at,
                size_t n, Use use) {
  if (entries == nullptr) {
    return passes ? ForPasses<false, kFloats>(base, stride, entries, at, n, use)
                  : ForRows<false, kFloats>(base, stride, entries, at, n, use);
  }
  return passes ? ForPasses<true, kFloats>(base, stride, entries, at, n, use)
                : ForRows<true, kFloats>(base, stride, entries, at, n, use);
}

}  // namespace

// Copies the weights of n rows to `out` (n, 16).
void KERNEL(BareGather_)(bool passes, char* base, size_t stride, const uint32_t* entries,
                         const uint32_t* at, size_t n, float* out) {
  For<kDim>(passes, base, stride, entries, at, n,
            [out](size_t i, const float* w) { Map(out + i * kDim) = ConstMap(w); });
}

// A step of AdaGrad on n rows of weights and state, in place.
void KERNEL(BareAdagrad_)(bool passes, char* base, size_t stride, const uint32_t* entries,
                          const uint32_t* at, size_t n, const float* grads) {
  For<2 * kDim>(passes, base, stride, entries, at, n, [grads](size_t i, float* w) {
    ConstMap g(grads + i * kDim);
    Map weights(w), state(w + kDim);
    state += g.square();
    weights -= 0.01f * g / (state.sqrt() + 1e-10f);
  });
}

}  // namespace starling
