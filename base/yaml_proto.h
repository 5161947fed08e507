// Strict YAML typed by a proto: every key must be a field, every value must
// fit, and every error is "file:line:column: what is wrong", with the nearest
// valid name where one is near.
//
// A mapping is a message, a sequence a repeated field (a lone scalar is a list
// of one), enum values are lower case. Field options of base/options.proto add
// units (`4GiB`, `30d`), required keys and ranges (`C1..C26`).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace starling {

// Where each value was written, so that later checks can name the place.
class SourceMap {
 public:
  // "job.yaml:12:7" for a path such as "features[0].id[3]"; the nearest
  // enclosing value's place if that one was not written.
  std::string At(const std::string& path) const;
  // InvalidArgument "job.yaml:12:7: message".
  absl::Status Error(const std::string& path, absl::string_view message) const;

  void Set(const std::string& path, std::string place) { places_[path] = std::move(place); }
  void set_file(std::string file) { file_ = std::move(file); }

 private:
  std::string file_;
  std::map<std::string, std::string> places_;
};

// Parses `text` (named `file` in errors) into `out`, then applies `overrides`,
// each "a.b=v" with v in YAML.
absl::Status ParseYaml(absl::string_view text, const std::string& file,
                       const std::vector<std::string>& overrides, google::protobuf::Message* out,
                       SourceMap* map);

// The JSON Schema of messages of this type, as ParseYaml reads them.
std::string JsonSchema(const google::protobuf::Descriptor& type);

// The candidate nearest to `word` by edit distance, or "" if none is near.
std::string NearestName(absl::string_view word, const std::vector<std::string>& candidates);
// `; did you mean "x"?`, or "".
std::string DidYouMean(absl::string_view word, const std::vector<std::string>& candidates);

}  // namespace starling
