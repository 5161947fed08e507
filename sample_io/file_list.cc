#include "sample_io/file_list.h"

#include <glob.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "base/status.h"

namespace starling {
namespace {

namespace fs = std::filesystem;

bool Skipped(const fs::path& path) {
  std::string name = path.filename().string();
  return absl::StartsWith(name, "_") || absl::StartsWith(name, ".");
}

absl::Status ListDirectory(const fs::path& directory, std::vector<std::string>* files) {
  std::error_code error;
  fs::recursive_directory_iterator it(directory, fs::directory_options::follow_directory_symlink,
                                      error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    std::error_code ignored;  // A dangling link is neither directory nor file.
    if (it->is_directory(ignored)) {
      if (Skipped(it->path())) it.disable_recursion_pending();
    } else if (!Skipped(it->path()) && it->path().extension() == ".parquet") {
      files->push_back(it->path().lexically_normal().string());
    }
  }
  if (!error) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(directory.string(), ": cannot list the directory: ", error.message()));
}

std::vector<std::string> Glob(const std::string& pattern) {
  std::vector<std::string> matches;
  glob_t result = {};
  if (glob(pattern.c_str(), 0, nullptr, &result) == 0) {
    for (size_t i = 0; i < result.gl_pathc; ++i) {
      fs::path path(result.gl_pathv[i]);
      fs::path named = path.has_filename() ? path : path.parent_path();
      if (!Skipped(named)) matches.push_back(path.string());
    }
  }
  globfree(&result);
  return matches;
}

absl::Status NoFile(const std::string& pattern) {
  std::error_code error;
  if (fs::is_directory(pattern, error)) {
    return absl::FailedPreconditionError(
        absl::StrCat(pattern,
                     ": the directory holds no *.parquet file (names that start with _ "
                     "or . are skipped); check the path or write data to it"));
  }
  return absl::FailedPreconditionError(
      absl::StrCat(pattern,
                   ": no such file, and no Parquet file matches; check the path, which "
                   "is a file, a directory or a glob, from the directory of the run"));
}

absl::Status ListPattern(const std::string& pattern, std::vector<std::string>* files) {
  std::error_code error;
  const size_t before = files->size();
  // A path that exists is meant literally, whatever characters it has.
  std::vector<std::string> paths =
      fs::exists(pattern, error) ? std::vector<std::string>{pattern} : Glob(pattern);
  for (const std::string& path : paths) {
    if (fs::is_directory(path, error)) {
      RETURN_IF_ERROR(ListDirectory(path, files));
    } else {
      files->push_back(fs::path(path).lexically_normal().string());
    }
  }
  return files->size() > before ? absl::OkStatus() : NoFile(pattern);
}

std::string Unescape(absl::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    bool escaped = text[i] == '%' && i + 2 < text.size() && absl::ascii_isxdigit(text[i + 1]) &&
                   absl::ascii_isxdigit(text[i + 2]);
    if (escaped) {
      out +=
          static_cast<char>(std::strtol(std::string(text.substr(i + 1, 2)).c_str(), nullptr, 16));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ListFiles(const std::vector<std::string>& patterns) {
  if (patterns.empty()) {
    return absl::FailedPreconditionError("no data given: name at least one file or directory");
  }
  std::vector<std::string> files;
  for (const std::string& pattern : patterns) RETURN_IF_ERROR(ListPattern(pattern, &files));
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

std::vector<std::pair<std::string, std::string>> HiveKeys(const std::string& path) {
  std::vector<std::pair<std::string, std::string>> keys;
  for (const fs::path& part : fs::path(path).parent_path()) {
    std::string text = part.string();
    size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) continue;
    keys.emplace_back(Unescape(text.substr(0, equals)), Unescape(text.substr(equals + 1)));
  }
  return keys;
}

}  // namespace starling
