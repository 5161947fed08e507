#include "sample_io/file_list.h"

#include <glob.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "sample_io/data_path.h"
#include "sample_io/path_pattern.h"
#include "sample_io/sample_file.h"

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
    } else if (!Skipped(it->path()) && HasSampleExtension(it->path().string())) {
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
  if (HasRange(pattern)) {
    return absl::FailedPreconditionError(
        absl::StrCat(pattern, ": no number of the range has a file; check the path and the range"));
  }
  if (fs::is_directory(pattern, error)) {
    return absl::FailedPreconditionError(
        absl::StrCat(pattern,
                     ": the directory holds no *.parquet file, nor Arrow or CSV (names that start "
                     "with _ or . are skipped); check the path or write data to it"));
  }
  return absl::FailedPreconditionError(
      absl::StrCat(pattern,
                   ": no such file, and no data file matches; check the path, which "
                   "is a file, a directory or a glob, from the directory of the run"));
}

bool SkippedBelow(const std::string& path, size_t from) {
  std::vector<std::string> names = absl::StrSplit(path.substr(from), '/');
  return std::any_of(names.begin(), names.end(),
                     [](const std::string& name) { return Skipped(fs::path(name)); });
}

// Wildcards of a remote path are matched against all that lies below its part without any.
absl::Status ListRemotePattern(const std::string& pattern, std::vector<std::string>* files) {
  const std::string path = PathPart(pattern);
  const size_t wild = path.find_first_of("*[");
  const bool literal = wild == std::string::npos;
  const std::string base = literal ? path : path.substr(0, path.rfind('/', wild));
  if (!IsRemote(base)) {
    return absl::InvalidArgumentError(absl::StrCat(pattern, ": the bucket's name has a wildcard"));
  }
  ASSIGN_OR_RETURN(std::vector<std::string> found, ListRemote(base + OptionsPart(pattern)));
  for (const std::string& file : found) {
    const std::string name = PathPart(file);
    const bool below = HasSampleExtension(name) && (literal || MatchesPathOrParent(path, name));
    const bool skipped = SkippedBelow(name, base.size());
    if (name == path || (!skipped && (below || MatchesPath(path, name)))) files->push_back(file);
  }
  return absl::OkStatus();
}

absl::Status ListLocalPattern(const std::string& pattern, std::vector<std::string>* files) {
  std::error_code error;
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
  return absl::OkStatus();
}

absl::Status ListPattern(const std::string& pattern, std::vector<std::string>* files) {
  std::error_code error;
  std::vector<std::string> patterns = {pattern};
  if (!fs::exists(pattern, error)) patterns = ExpandLists(pattern);
  for (const std::string& one : patterns) {
    const size_t before = files->size();
    std::vector<std::string> expanded = {one};
    if (!fs::exists(one, error)) {
      ASSIGN_OR_RETURN(expanded, ExpandRanges(one));
    }
    for (const std::string& path : expanded) {
      RETURN_IF_ERROR(IsRemote(path) ? ListRemotePattern(path, files)
                                     : ListLocalPattern(path, files));
    }
    if (files->size() == before) return NoFile(one);
  }
  return absl::OkStatus();
}

bool IsManifest(const std::string& pattern) {
  return absl::StartsWith(pattern, "@") || absl::EndsWith(pattern, ".manifest");
}

// The patterns of a manifest's lines.
absl::StatusOr<std::vector<std::string>> ReadManifest(const std::string& path) {
  std::ifstream in(path);
  if (!in) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": the list of files cannot be read; check the path"));
  }
  std::vector<std::string> patterns;
  std::string text;
  for (int line = 1; std::getline(in, text); ++line) {
    std::string pattern(absl::StripAsciiWhitespace(text.substr(0, text.find('#'))));
    if (pattern.empty()) continue;
    if (IsManifest(pattern)) {
      return absl::FailedPreconditionError(absl::StrCat(
          path, ": line ", line, ": a list of files cannot name another list; name files here"));
    }
    const bool absolute = absl::StartsWith(pattern, "/") || absl::StrContains(pattern, "://");
    patterns.push_back(absolute ? pattern : (fs::path(path).parent_path() / pattern).string());
  }
  if (!patterns.empty()) return patterns;
  return absl::FailedPreconditionError(absl::StrCat(path, ": the list names no file"));
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
  for (const std::string& pattern : patterns) {
    if (!IsManifest(pattern)) {
      RETURN_IF_ERROR(ListPattern(LocalPath(pattern), &files));
      continue;
    }
    const std::string list = LocalPath(std::string(absl::StripPrefix(pattern, "@")));
    ASSIGN_OR_RETURN(std::vector<std::string> named, ReadManifest(list));
    for (const std::string& one : named) {
      RETURN_IF_ERROR(Annotate(ListPattern(LocalPath(one), &files), list));
    }
  }
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

std::vector<std::pair<std::string, std::string>> HiveKeys(const std::string& path) {
  std::vector<std::pair<std::string, std::string>> keys;
  for (const fs::path& part : fs::path(PathPart(path)).parent_path()) {
    std::string text = part.string();
    size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) continue;
    keys.emplace_back(Unescape(text.substr(0, equals)), Unescape(text.substr(equals + 1)));
  }
  return keys;
}

}  // namespace starling
