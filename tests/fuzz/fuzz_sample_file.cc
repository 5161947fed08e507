// Bytes from anywhere as a file of samples: read whole or refused with an error
// that names the file, and never a crash, a hang or much memory. The first byte
// says what the rest is; make_corpus.py writes seeds of each.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "sample_io/expression.h"
#include "sample_io/predicate.h"
#include "sample_io/source.h"

namespace starling {
namespace {

constexpr const char* kExtensions[] = {".parquet", ".arrow", ".arrows", ".csv", ".tsv", ".csv.gz"};
constexpr size_t kFormats = std::size(kExtensions);

// In memory, where there is such a place.
const std::string& Dir() {
  static const std::string& dir = *[] {
    const bool shared = std::filesystem::is_directory("/dev/shm");
    auto* path = new std::string(  // Not freed: it is removed when all else is gone.
        absl::StrCat(shared ? "/dev/shm" : "/tmp", "/starling-fuzz.", ::getpid()));
    std::filesystem::create_directories(*path);
    std::atexit([] { std::filesystem::remove_all(Dir()); });
    return path;
  }();
  return dir;
}

// A broken promise is a finding like any crash.
void Require(bool promise, const std::string& what) {
  if (promise) return;
  std::cerr << "broken promise: " << what << "\n";
  std::abort();
}

void CheckError(const absl::Status& status, const std::string& path) {
  Require(status.code() == absl::StatusCode::kFailedPrecondition &&
              absl::StrContains(status.message(), path),
          status.ToString());
}

void ReadAll(const SampleSource& source, const std::string& path) {
  std::vector<std::string> names;
  for (const ColumnSchema& column : source.schema()) names.push_back(column.name);
  for (size_t s = 0; s < source.splits().size(); ++s) {
    for (const std::string& name : names) {  // One by one: a bad one hides no other.
      auto batch = source.Read(static_cast<int>(s), {name});
      if (!batch.ok()) {
        CheckError(batch.status(), path);
        continue;
      }
      const Column& column = batch->columns[0];
      for (int64_t row = 0; row < column.rows; ++row) {
        if (!column.IsNull(row)) std::ignore = ValueText(column, row);
      }
    }
  }
}

void ReadFile(const std::string& path) {
  auto source = SampleSource::Open({path});
  if (!source.ok()) return CheckError(source.status(), path);
  ReadAll(**source, path);
  // In pieces, as parts too large for the budget are. Few: a footer may claim any number.
  auto pieces = SampleSource::Open({path}, {.read_memory = 32 << 10});
  if (pieces.ok() && (*pieces)->splits().size() < 50) ReadAll(**pieces, path);
  // Under a predicate too: statistics are as untrusted as the rest.
  const std::string column = (*source)->schema()[0].name;
  if (absl::StrContains(column, '`') || column.empty()) return;
  for (const char* test : {"is not null", "> 5", "= 'a'"}) {
    auto some = SampleSource::Open({path}, {absl::StrCat("`", column, "` ", test)});
    if (some.ok()) ReadAll(**some, path);
  }
}

}  // namespace
}  // namespace starling

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace starling;
  if (size == 0) return 0;
  const size_t kind = data[0] % (kFormats + 1);
  const std::string rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (kind == kFormats) {
    std::ignore = Predicate::Parse(rest).ok();
    std::ignore = Expression::Parse(rest).ok();
    return 0;
  }
  const std::string path = absl::StrCat(Dir(), "/f", kExtensions[kind]);
  std::ofstream(path, std::ios::binary) << rest;
  ReadFile(path);
  return 0;
}
