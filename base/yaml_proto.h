// Strict YAML typed by a proto: every key must be a field, every value must
// fit, and every error is "file:line:column: what is wrong", with the nearest
// valid name where one is near.
//
// A mapping is a message (a key without a value is an empty one), a sequence a
// repeated field (a lone scalar is a list of one), enum values are lower case.
// Numbers, `true` and `false` are bare, never quoted. Field options of
// base/options.proto add units (`4GiB`, `30d`; case does not matter), required
// keys and ranges (`C1..C26`, `f01..f10`).
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
  // enclosing value's place if that one was not written. A mapping's place is
  // its key's; the elements of a range share the range's; what an override set
  // has the override for a place: "--set data.batch=64".
  std::string At(const std::string& path) const;
  // InvalidArgument "job.yaml:12:7: message".
  absl::Status Error(const std::string& path, absl::string_view message) const;

  void Set(const std::string& path, std::string place) { places_[path] = std::move(place); }
  void set_file(std::string file) { file_ = std::move(file); }
  // Forgets the path and all below it.
  void Forget(const std::string& path);

 private:
  std::string file_;
  std::map<std::string, std::string> places_;
};

// Parses `text` (named `file` in errors) into `out`, then applies `overrides`,
// each "a.b=v" or "a[0].b=v" with v in YAML. An override replaces the whole
// value, and the other members of its oneof; `null` removes it. Required keys
// are looked for at the end, so an override may supply them.
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
