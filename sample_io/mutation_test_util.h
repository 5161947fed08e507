// Files changed at random, read in child processes: a crash is then one failure
// with the number that replays it, and not the end of the test. STARLING_SEED replaces
// the seed and STARLING_ROUNDS the number of mutations a file.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace starling {

struct Mutation {
  std::string bytes;
  std::string what;
  bool cut = false, in_pages = false;
};

// Reads every value of the file, within the budget (SourceOptions). Its number of rows.
absl::StatusOr<int64_t> ReadRows(const std::string& path, int64_t read_memory = 0);

// What is wrong with the outcome of reading a mutation; empty if nothing.
using JudgeMutation =
    std::function<std::string(const Mutation& mutation, const absl::StatusOr<int64_t>& rows)>;

struct MutationCounts {
  int rounds = 0, read = 0, refused = 0;
};

// Mutates the file at `path`, `rounds` times unless STARLING_ROUNDS is set, half
// of them before byte `pages` and half behind it, and reads every other one in
// pieces of its parts, if the format can. A test failure for what the judge
// finds wrong, a crash, a hang, or much memory.
MutationCounts RunMutations(const std::string& path, size_t pages, int rounds,
                            const JudgeMutation& judge);

}  // namespace starling
