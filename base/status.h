// Status plumbing, and the exit code a Status ends the program with.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace starling {

// Puts `where` in front of the message: "logs/a.parquet: row group 3: …".
[[nodiscard]] absl::Status Annotate(const absl::Status& status, absl::string_view where);

// Exit codes of the program. InvalidArgument, NotFound, AlreadyExists and
// PermissionDenied are the user's command or config
// (2); FailedPrecondition and OutOfRange are the data's (3); Aborted is a
// numeric abort (4); DataLoss is corruption (5); Unavailable, DeadlineExceeded
// and ResourceExhausted are worth retrying (138); Cancelled is a clean stop by
// signal (143); anything else is 1.
enum ExitCode {
  kExitOk = 0,
  kExitOther = 1,
  kExitUsage = 2,
  kExitData = 3,
  kExitNumeric = 4,
  kExitCorruption = 5,
  kExitRetry = 138,
  kExitTerminated = 143,
};
int ExitCodeOf(const absl::Status& status);

}  // namespace starling

#define RETURN_IF_ERROR(expr)                                                           \
  do {                                                                                  \
    if (absl::Status status_macro_ = (expr); !status_macro_.ok()) return status_macro_; \
  } while (0)

#define STARLING_CONCAT_(a, b) a##b
#define STARLING_CONCAT(a, b) STARLING_CONCAT_(a, b)
#define ASSIGN_OR_RETURN(lhs, expr) \
  ASSIGN_OR_RETURN_(STARLING_CONCAT(statusor_, __LINE__), lhs, expr)
#define ASSIGN_OR_RETURN_(tmp, lhs, expr) \
  auto tmp = (expr);                      \
  if (!tmp.ok()) return tmp.status();     \
  lhs = *std::move(tmp)
