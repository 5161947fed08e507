#include "sample_io/memory_test_util.h"

#include <arrow/memory_pool.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace starling {
namespace {

int64_t StatusBytes(const std::string& key) {
  std::ifstream file("/proc/self/status");
  std::string word;
  while (file >> word) {
    int64_t kib = 0;
    if (word == key && file >> kib) return kib << 10;
  }
  ADD_FAILURE() << "no " << key << " in /proc/self/status";
  return 0;
}

}  // namespace

void InAnotherProcess(const std::function<void()>& write) {
  const pid_t child = fork();
  if (child == 0) {
    write();
    std::_Exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int code = -1;
  ASSERT_EQ(waitpid(child, &code, 0), child);
  ASSERT_EQ(code, 0);
}

MemoryGrowth::MemoryGrowth() {
  malloc_trim(0);
  arrow::default_memory_pool()->ReleaseUnused();
  std::ofstream("/proc/self/clear_refs") << "5";
  before_ = StatusBytes("VmRSS:");
}

int64_t MemoryGrowth::most() const { return StatusBytes("VmHWM:") - before_; }

}  // namespace starling
