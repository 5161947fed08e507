// Bringing a cache line in ahead of its use.
#pragma once

namespace starling {

// Not __builtin_prefetch: GCC 12 takes a function that does nothing else for
// one without effect, and removes calls of it.
[[gnu::always_inline]] inline void PrefetchLine(const void* p) {
  asm volatile("prefetcht0 %0" : : "m"(*static_cast<const char*>(p)));
}

// Into L2 and not further: for what is used some hundred lines later. L2 takes in more lines at a
// time than L1 does.
[[gnu::always_inline]] inline void PrefetchIntoL2(const void* p) {
  asm volatile("prefetcht1 %0" : : "m"(*static_cast<const char*>(p)));
}

}  // namespace starling
