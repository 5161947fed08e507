#include "sample_io/path_pattern.h"

#include <fnmatch.h>

#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/status.h"

namespace starling {
namespace {

constexpr int64_t kRangeMax = 100'000;

// A brace and what is inside: pattern = before + "{" + inside + "}" + after.
struct Brace {
  std::string before, inside, after;
};

bool IsNumber(absl::string_view text) {
  return !text.empty() && text.size() < 19 &&
         std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

std::optional<std::pair<std::string, std::string>> RangeOf(absl::string_view inside) {
  std::pair<std::string, std::string> ends = absl::StrSplit(inside, absl::MaxSplits("..", 1));
  if (!IsNumber(ends.first) || !IsNumber(ends.second)) return std::nullopt;
  return ends;
}

// The first innermost brace whose inside `wanted` takes.
template <typename Wanted>
std::optional<Brace> FindBrace(const std::string& pattern, const Wanted& wanted) {
  for (size_t close = pattern.find('}'); close != std::string::npos;
       close = pattern.find('}', close + 1)) {
    size_t open = pattern.rfind('{', close);
    if (open == std::string::npos) continue;
    std::string inside = pattern.substr(open + 1, close - open - 1);
    if (wanted(inside)) return Brace{pattern.substr(0, open), inside, pattern.substr(close + 1)};
  }
  return std::nullopt;
}

std::optional<Brace> FindRange(const std::string& pattern) {
  return FindBrace(pattern, [](const std::string& inside) { return RangeOf(inside).has_value(); });
}

}  // namespace

std::vector<std::string> ExpandLists(const std::string& pattern) {
  auto brace = FindBrace(
      pattern, [](const std::string& inside) { return inside.find(',') != std::string::npos; });
  if (!brace) return {pattern};
  std::vector<std::string> out;
  for (absl::string_view member : absl::StrSplit(brace->inside, ',')) {
    for (std::string& expanded : ExpandLists(absl::StrCat(brace->before, member, brace->after))) {
      out.push_back(std::move(expanded));
    }
  }
  return out;
}

bool HasRange(const std::string& pattern) { return FindRange(pattern).has_value(); }

absl::StatusOr<std::vector<std::string>> ExpandRanges(const std::string& pattern) {
  auto brace = FindRange(pattern);
  if (!brace) return std::vector<std::string>{pattern};
  auto [first_text, last_text] = *RangeOf(brace->inside);
  int64_t first = 0, last = 0;
  if (!absl::SimpleAtoi(first_text, &first) || !absl::SimpleAtoi(last_text, &last) ||
      last < first || last - first >= kRangeMax) {
    return absl::InvalidArgumentError(absl::StrCat(pattern, ": the range {", brace->inside,
                                                   "} must run upwards, over at most ", kRangeMax,
                                                   " numbers"));
  }
  const bool padded = first_text[0] == '0' && first_text.size() > 1;
  const int width = padded ? static_cast<int>(first_text.size()) : 0;
  std::vector<std::string> out;
  for (int64_t number = first; number <= last; ++number) {
    ASSIGN_OR_RETURN(std::vector<std::string> rest,
                     ExpandRanges(absl::StrCat(
                         brace->before, absl::StrFormat("%0*d", width, number), brace->after)));
    out.insert(out.end(), rest.begin(), rest.end());
  }
  return out;
}

bool MatchesPath(const std::string& pattern, const std::string& path) {
  return fnmatch(pattern.c_str(), path.c_str(), FNM_PATHNAME | FNM_PERIOD) == 0;
}

bool MatchesPathOrParent(const std::string& pattern, const std::string& path) {
  std::string trimmed = pattern;
  while (trimmed.size() > 1 && trimmed.back() == '/') trimmed.pop_back();
  for (size_t end = path.size(); end != std::string::npos && end > 0;
       end = path.rfind('/', end - 1)) {
    if (MatchesPath(trimmed, path.substr(0, end))) return true;
  }
  return false;
}

}  // namespace starling
