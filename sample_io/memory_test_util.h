// What tests of memory need: a process that writes what is read later, and the
// most that this one grew.
#pragma once

#include <cstdint>
#include <functional>

namespace starling {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;  // Which keeps freed memory.
#else
inline constexpr bool kSanitized = false;
#endif

// What a writer held would else be there, free for the reader.
void InAnotherProcess(const std::function<void()>& write);

// The most bytes resident since its construction, beyond those of then.
class MemoryGrowth {
 public:
  MemoryGrowth();
  int64_t most() const;

 private:
  int64_t before_;
};

}  // namespace starling
