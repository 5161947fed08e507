// Where tests write.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/file.h"

namespace starling {

// A directory of this process, removed when the process ends unless a test failed.
inline const std::string& TestRoot() {
  struct Root {
    const pid_t process = ::getpid();
    const std::string path = JoinPath(testing::TempDir(), absl::StrCat("starling_test.", process));
    Root() {
      RemoveAll(path).IgnoreError();  // Of an earlier process with this number.
      EXPECT_TRUE(MakeDirs(path).ok());
    }
    ~Root() {
      if (::getpid() != process) return;  // A fork's.
      if (!testing::UnitTest::GetInstance()->Failed()) RemoveAll(path).IgnoreError();
    }
  };
  static const Root root;
  return root.path;
}

}  // namespace starling
