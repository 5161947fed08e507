#include "sample_io/sample_file.h"

#include <array>

#include "absl/strings/match.h"
#include "sample_io/data_path.h"

namespace starling {
namespace {

using Opener = absl::StatusOr<std::unique_ptr<SampleFile>> (*)(const std::string&);
struct Format {
  const char* extension;
  Opener open;
};
constexpr std::array<Format, 8> kFormats = {{{".parquet", OpenParquetFile},
                                             {".arrow", OpenIpcFile},
                                             {".feather", OpenIpcFile},
                                             {".arrows", OpenIpcFile},
                                             {".csv", OpenCsvFile},
                                             {".tsv", OpenCsvFile},
                                             {".csv.gz", OpenCsvFile},
                                             {".tsv.gz", OpenCsvFile}}};

const Format* FormatOf(absl::string_view path) {
  for (const Format& format : kFormats) {
    if (absl::EndsWithIgnoreCase(path, format.extension)) return &format;
  }
  return nullptr;
}

}  // namespace

bool HasSampleExtension(absl::string_view path) { return FormatOf(path) != nullptr; }

absl::StatusOr<std::unique_ptr<SampleFile>> SampleFile::Open(const std::string& path) {
  const Format* format = FormatOf(PathPart(path));
  return format == nullptr ? OpenParquetFile(path) : format->open(path);
}

}  // namespace starling
