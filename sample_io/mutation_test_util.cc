#include "sample_io/mutation_test_util.h"

#include <arrow/memory_pool.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "sample_io/parquet_test_util.h"
#include "sample_io/source.h"

namespace starling {
namespace {

constexpr int64_t kPiecesMemory = 64 << 10;  // Makes several of a test file's part.
constexpr int64_t kArrowBytesMax = 64 << 20;
constexpr int64_t kResidentKibMax = 1 << 20;  // ASan's own included.
constexpr int kSecondsMax = 120;              // Of a child: a hang is a crash by SIGALRM.
constexpr int kFailuresMax = 5;

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

// The footer is a small part of a file and the more fragile one: half of the
// changes go there.
Mutation Mutate(const std::string& whole, size_t pages, uint64_t seed, int i) {
  auto below = [&, draw = 0](uint64_t n) mutable { return RandomBelow(seed, i * 64 + draw++, n); };
  Mutation m;
  m.bytes = whole;
  if (below(8) == 0) {
    m.cut = true;
    m.bytes.resize(below(whole.size()));
    m.what = absl::StrCat("cut to ", m.bytes.size());
    return m;
  }
  m.in_pages = below(2) == 0;
  const size_t begin = m.in_pages ? 4 : pages, end = m.in_pages ? pages : whole.size();
  const size_t at = begin + below(end - begin);
  switch (below(4)) {
    case 0:
    case 1:
      m.bytes[at] ^= static_cast<char>(1 << below(8));
      m.what = absl::StrCat("a bit of byte ", at);
      break;
    case 2:
      m.bytes[at] = static_cast<char>(below(256));
      m.what = absl::StrCat("byte ", at);
      break;
    default: {
      const size_t length = std::min<size_t>(1 + below(12), end - at);
      const uint64_t kind = below(3);
      for (size_t b = at; b < at + length; ++b) {
        m.bytes[b] = static_cast<char>(kind == 0 ? 0 : kind == 1 ? 0xff : below(256));
      }
      m.what = absl::StrCat(length, " bytes from ", at);
    }
  }
  return m;
}

// Shared between the test and its child.
struct Progress {
  int at = 0, read = 0, refused = 0;
  char wrong[2000] = {};
};

class MutationRun {
 public:
  MutationRun(const std::string& path, size_t pages, int rounds, const JudgeMutation& judge)
      : path_(path), whole_(ReadText(path)), pages_(pages), rounds_(rounds), judge_(judge) {
    void* shared = ::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    progress_ = shared == MAP_FAILED ? nullptr : new (shared) Progress;
  }
  ~MutationRun() {
    if (progress_ != nullptr) ::munmap(progress_, sizeof(Progress));
  }

  MutationCounts Run() {
    if (progress_ == nullptr) ADD_FAILURE() << "no shared memory";
    for (int failures = 0; progress_ != nullptr && !RunChild(); ++failures) {
      if (failures < kFailuresMax) continue;
      ADD_FAILURE() << "and so on";
      break;
    }
    if (progress_ == nullptr) return {};
    return {rounds_, progress_->read, progress_->refused};
  }

 private:
  // In the child: all mutations from progress_->at on.
  void ReadMutations() {
    // Tests before this one, in the same process, may have taken more.
    const int64_t limit = std::max(kArrowBytesMax, arrow::default_memory_pool()->max_memory());
    for (; progress_->at < rounds_; ++progress_->at) {
      const Mutation m = Mutate(whole_, pages_, seed_, progress_->at);
      WriteText(path_, m.bytes);
      const auto rows = ReadRows(path_, progress_->at % 2 == 0 ? 0 : kPiecesMemory);
      ++(rows.ok() ? progress_->read : progress_->refused);
      std::string wrong = judge_(m, rows);
      if (wrong.empty() && arrow::default_memory_pool()->max_memory() > limit) {
        wrong = "too much memory";
      }
      if (wrong.empty()) continue;
      absl::StrAppend(&wrong, " (mutation ", progress_->at, ": ", m.what, ")");
      std::strncpy(progress_->wrong, wrong.c_str(), sizeof(progress_->wrong) - 1);
      return;
    }
  }

  // True once there is no more to do.
  bool RunChild() {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(kSecondsMax);
      ReadMutations();
      ::_exit(0);
    }
    int status = 0;
    struct rusage usage = {};
    EXPECT_EQ(::wait4(child, &status, 0, &usage), child);
    EXPECT_LE(usage.ru_maxrss, kResidentKibMax) << "KiB by mutation " << progress_->at;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      ADD_FAILURE() << "died at mutation " << progress_->at << " ("
                    << Mutate(whole_, pages_, seed_, progress_->at).what << "), status " << status
                    << "; STARLING_SEED=" << seed_;
    }
    EXPECT_STREQ(progress_->wrong, "") << "STARLING_SEED=" << seed_;
    progress_->wrong[0] = 0;
    return progress_->at++ >= rounds_;
  }

  const std::string path_, whole_;
  const size_t pages_;
  const int rounds_;
  const JudgeMutation& judge_;
  const uint64_t seed_ = FromEnvironment("STARLING_SEED", 20240601);
  Progress* progress_ = nullptr;
};

}  // namespace

absl::StatusOr<int64_t> ReadRows(const std::string& path, int64_t read_memory) {
  auto source = SampleSource::Open({path}, {.read_memory = read_memory});
  if (!source.ok()) return source.status();
  std::vector<std::string> names;
  for (const ColumnSchema& column : (*source)->schema()) names.push_back(column.name);
  int64_t rows = 0;
  for (size_t s = 0; s < (*source)->splits().size(); ++s) {
    auto batch = (*source)->Read(static_cast<int>(s), names);
    if (!batch.ok()) return batch.status();
    for (const Column& column : batch->columns) {
      if (column.rows != batch->rows) return absl::InternalError("columns of unequal length");
      for (int64_t row = 0; row < column.rows; ++row) {  // Touches every value.
        if (!column.IsNull(row)) std::ignore = ValueText(column, row);
      }
    }
    rows += batch->rows;
  }
  return rows;
}

MutationCounts RunMutations(const std::string& path, size_t pages, int rounds,
                            const JudgeMutation& judge) {
  const auto n = static_cast<int>(FromEnvironment("STARLING_ROUNDS", rounds));
  return MutationRun(path, pages, n, judge).Run();
}

}  // namespace starling
