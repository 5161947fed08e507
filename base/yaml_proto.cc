#include "base/yaml_proto.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <functional>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/options.pb.h"
#include "base/status.h"
#include "base/yaml_values.h"

namespace starling {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;

std::string Join(const std::string& path, absl::string_view key) {
  return path.empty() ? std::string(key) : absl::StrCat(path, ".", key);
}

std::vector<std::string> FieldNames(const Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
  return names;
}

std::string OneofNames(const OneofDescriptor& oneof) {
  std::vector<std::string> names;
  for (int i = 0; i < oneof.field_count(); ++i) names.push_back(oneof.field(i)->name());
  return absl::StrJoin(names, ", ");
}

std::string Found(const YAML::Node& node) {
  switch (node.Type()) {
    case YAML::NodeType::Map:
      return "a mapping";
    case YAML::NodeType::Sequence:
      return "a list";
    case YAML::NodeType::Scalar:
      return absl::StrCat("\"", node.Scalar(), "\"");
    default:
      return "nothing";
  }
}

// Walks YAML and message together, noting the place of all it sets.
class Reader {
 public:
  // `place` says where a mark is, in the file or in an override.
  Reader(std::function<std::string(const YAML::Mark&)> place, SourceMap* map)
      : place_(std::move(place)), map_(map) {}

  absl::Status ReadMapping(const YAML::Node& node, const std::string& path, Message* out);
  // Sets `field` of `out` to `node`; `path` is the field's own. `at` is its key.
  absl::Status ReadField(const FieldDescriptor& field, const YAML::Node& node, const YAML::Mark& at,
                         const std::string& path, Message* out);
  // One element of a repeated field, or a single field.
  absl::Status ReadValue(const FieldDescriptor& field, const YAML::Node& node, const YAML::Mark& at,
                         const std::string& path, Message* out);
  absl::Status Error(const YAML::Mark& mark, absl::string_view message) const {
    return absl::InvalidArgumentError(absl::StrCat(place_(mark), ": ", message));
  }

 private:
  absl::Status ReadList(const FieldDescriptor& field, const YAML::Node& node,
                        const std::string& path, Message* out);
  // As ReadValue, but a range becomes as many elements as it has.
  absl::Status ReadElements(const FieldDescriptor& field, const YAML::Node& node,
                            const std::string& path, Message* out);
  absl::Status CheckKey(const YAML::Node& key, const Descriptor& type,
                        std::set<std::string>* seen) const;

  const std::function<std::string(const YAML::Mark&)> place_;
  SourceMap* const map_;
};

absl::Status Reader::CheckKey(const YAML::Node& key, const Descriptor& type,
                              std::set<std::string>* seen) const {
  if (!key.IsScalar()) {
    return Error(key.Mark(), absl::StrCat("expected a key, found ", Found(key)));
  }
  const FieldDescriptor* field = type.FindFieldByName(key.Scalar());
  if (field == nullptr) {
    std::string hint = DidYouMean(key.Scalar(), FieldNames(type));
    if (hint.empty()) hint = absl::StrCat("; keys are ", absl::StrJoin(FieldNames(type), ", "));
    return Error(key.Mark(), absl::StrCat("unknown key \"", key.Scalar(), "\"", hint));
  }
  if (!seen->insert(key.Scalar()).second) {
    return Error(key.Mark(), absl::StrCat("duplicate key \"", key.Scalar(), "\""));
  }
  const OneofDescriptor* oneof = field->containing_oneof();
  for (int i = 0; oneof != nullptr && i < oneof->field_count(); ++i) {
    const std::string& other = oneof->field(i)->name();
    if (other == key.Scalar() || seen->count(other) == 0) continue;
    return Error(key.Mark(), absl::StrCat("\"", key.Scalar(), "\" beside \"", other,
                                          "\": give only one of ", OneofNames(*oneof)));
  }
  return absl::OkStatus();
}

absl::Status Reader::ReadMapping(const YAML::Node& node, const std::string& path, Message* out) {
  const Descriptor& type = *out->GetDescriptor();
  std::set<std::string> seen;
  for (const auto& entry : node) {
    RETURN_IF_ERROR(CheckKey(entry.first, type, &seen));
    const FieldDescriptor& field = *type.FindFieldByName(entry.first.Scalar());
    RETURN_IF_ERROR(
        ReadField(field, entry.second, entry.first.Mark(), Join(path, field.name()), out));
  }
  return absl::OkStatus();
}

absl::Status Reader::ReadField(const FieldDescriptor& field, const YAML::Node& node,
                               const YAML::Mark& at, const std::string& path, Message* out) {
  if (!field.is_repeated()) return ReadValue(field, node, at, path, out);
  map_->Set(path, place_(at));
  bool is_message = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  if (node.IsScalar() && !is_message) return ReadElements(field, node, path, out);
  if (!node.IsSequence()) {
    return Error(node.IsDefined() && !node.IsNull() ? node.Mark() : at,
                 absl::StrCat(field.name(), ": expected a list, found ", Found(node)));
  }
  return ReadList(field, node, path, out);
}

absl::Status Reader::ReadList(const FieldDescriptor& field, const YAML::Node& node,
                              const std::string& path, Message* out) {
  for (const YAML::Node& element : node) {
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      int i = out->GetReflection()->FieldSize(*out, &field);
      RETURN_IF_ERROR(
          ReadValue(field, element, element.Mark(), absl::StrCat(path, "[", i, "]"), out));
    } else {
      RETURN_IF_ERROR(ReadElements(field, element, path, out));
    }
  }
  return absl::OkStatus();
}

absl::Status Reader::ReadElements(const FieldDescriptor& field, const YAML::Node& node,
                                  const std::string& path, Message* out) {
  int i = out->GetReflection()->FieldSize(*out, &field);
  if (!field.options().GetExtension(ranges) || !node.IsScalar()) {
    return ReadValue(field, node, node.Mark(), absl::StrCat(path, "[", i, "]"), out);
  }
  absl::StatusOr<std::vector<std::string>> names = ExpandRange(node.Scalar());
  if (!names.ok()) return Error(node.Mark(), names.status().message());
  for (const std::string& name : *names) {
    out->GetReflection()->AddString(out, &field, name);
    map_->Set(absl::StrCat(path, "[", i++, "]"), place_(node.Mark()));
  }
  return absl::OkStatus();
}

absl::Status Reader::ReadValue(const FieldDescriptor& field, const YAML::Node& node,
                               const YAML::Mark& at, const std::string& path, Message* out) {
  const YAML::Mark& mark = node.IsNull() ? at : node.Mark();
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    map_->Set(path, place_(at));
    if (!node.IsMap() && !node.IsNull()) {
      return Error(mark, absl::StrCat(field.name(), ": expected a mapping, found ", Found(node)));
    }
    Message* child = field.is_repeated() ? out->GetReflection()->AddMessage(out, &field)
                                         : out->GetReflection()->MutableMessage(out, &field);
    return ReadMapping(node, path, child);
  }
  map_->Set(path, place_(mark));
  if (!node.IsScalar()) {
    return Error(
        mark, absl::StrCat(field.name(), ": expected ", TypeDue(field), ", found ", Found(node)));
  }
  absl::Status status = SetScalar(field, node.Scalar(), node.Tag() == "!", out);
  return status.ok() ? status : Error(mark, absl::StrCat(field.name(), ": ", status.message()));
}

// ---- Overrides: "a.b[0].c=v" ----

// Takes "name" or "name[3]" and the dot behind it off the front of `path`.
absl::Status NextStep(absl::string_view* path, std::string* name, int* index) {
  size_t end = std::min(path->find('.'), path->size());
  absl::string_view step = path->substr(0, end);
  path->remove_prefix(std::min(end + 1, path->size()));
  *index = -1;
  size_t open = step.find('[');
  *name = std::string(step.substr(0, open));
  if (open == absl::string_view::npos) return absl::OkStatus();
  absl::string_view digits = step.substr(open + 1);
  if (digits.empty() || digits.back() != ']' ||
      !absl::SimpleAtoi(digits.substr(0, digits.size() - 1), index) || *index < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", step, "\": expected an index, as in ", *name, "[0]"));
  }
  return absl::OkStatus();
}

class Override {
 public:
  Override(const std::string& text, SourceMap* map)
      : place_(absl::StrCat("--set ", text)),
        map_(map),
        reader_([this](const YAML::Mark&) { return place_; }, map) {}

  absl::Status Apply(absl::string_view path, const YAML::Node& value, Message* out) {
    std::string name, prefix;
    int index = -1;
    for (;;) {
      absl::Status step = NextStep(&path, &name, &index);
      if (!step.ok()) return Error(step.message());
      const FieldDescriptor* field = out->GetDescriptor()->FindFieldByName(name);
      if (field == nullptr) {
        return Error(absl::StrCat("unknown key \"", name, "\"",
                                  DidYouMean(name, FieldNames(*out->GetDescriptor()))));
      }
      prefix = Join(prefix, name);
      RETURN_IF_ERROR(CheckIndex(*field, index, *out));
      if (index >= 0) absl::StrAppend(&prefix, "[", index, "]");
      if (path.empty()) return SetTo(*field, index, value, prefix, out);
      if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE ||
          (field->is_repeated() && index < 0)) {
        return Error(absl::StrCat("\"", prefix, "\" is ",
                                  field->is_repeated() ? "a list" : TypeDue(*field),
                                  ": nothing is below it"));
      }
      out = field->is_repeated() ? out->GetReflection()->MutableRepeatedMessage(out, field, index)
                                 : out->GetReflection()->MutableMessage(out, field);
    }
  }
  absl::Status Error(absl::string_view message) const {
    return absl::InvalidArgumentError(absl::StrCat(place_, ": ", message));
  }

 private:
  absl::Status CheckIndex(const FieldDescriptor& field, int index, const Message& message) const {
    if (index < 0) return absl::OkStatus();
    if (!field.is_repeated()) return Error(absl::StrCat("\"", field.name(), "\" is not a list"));
    int size = message.GetReflection()->FieldSize(message, &field);
    if (index < size) return absl::OkStatus();
    return Error(absl::StrCat("\"", field.name(), "\" has ", size, " elements"));
  }

  absl::Status SetTo(const FieldDescriptor& field, int index, const YAML::Node& value,
                     const std::string& path, Message* out) {
    map_->Forget(path);
    const google::protobuf::Reflection& r = *out->GetReflection();
    if (index < 0) {
      r.ClearField(out, &field);
      if (value.IsNull()) return absl::OkStatus();
      return reader_.ReadField(field, value, value.Mark(), path, out);
    }
    // Read as a new last element, then put into its place.
    int last = r.FieldSize(*out, &field);
    RETURN_IF_ERROR(reader_.ReadValue(field, value, value.Mark(), path, out));
    r.SwapElements(out, &field, index, last);
    r.RemoveLast(out, &field);
    return absl::OkStatus();
  }

  const std::string place_;
  SourceMap* const map_;
  Reader reader_;
};

absl::Status ApplyOverride(const std::string& text, SourceMap* map, Message* out) {
  Override change(text, map);
  size_t eq = text.find('=');
  if (eq == std::string::npos || eq == 0) return change.Error("expected key=value");
  try {
    return change.Apply(absl::string_view(text).substr(0, eq), YAML::Load(text.substr(eq + 1)),
                        out);
  } catch (const YAML::Exception& e) {
    return change.Error(e.msg);
  }
}

// ---- Required keys, after all has been read ----

absl::Status CheckRequired(const Message& message, const std::string& path, const SourceMap& map) {
  const google::protobuf::Reflection& r = *message.GetReflection();
  const Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    std::string below = Join(path, field.name());
    int size = field.is_repeated() ? r.FieldSize(message, &field) : r.HasField(message, &field);
    if (size == 0 && field.options().GetExtension(required)) {
      const std::string& about = field.options().GetExtension(doc);
      return map.Error(path, absl::StrCat(path.empty() ? "" : absl::StrCat(path, ": "),
                                          "missing key \"", field.name(), "\"",
                                          about.empty() ? "" : absl::StrCat(" (", about, ")")));
    }
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    for (int k = 0; k < size; ++k) {
      const Message& child = field.is_repeated() ? r.GetRepeatedMessage(message, &field, k)
                                                 : r.GetMessage(message, &field);
      RETURN_IF_ERROR(CheckRequired(
          child, field.is_repeated() ? absl::StrCat(below, "[", k, "]") : below, map));
    }
  }
  return absl::OkStatus();
}

std::string PlaceInFile(const std::string& file, const YAML::Mark& mark) {
  if (mark.is_null()) return absl::StrCat(file, ":1:1");
  return absl::StrCat(file, ":", mark.line + 1, ":", mark.column + 1);
}

absl::Status ParseDocument(absl::string_view text, const std::string& file, Message* out,
                           SourceMap* map) {
  Reader reader([&file](const YAML::Mark& mark) { return PlaceInFile(file, mark); }, map);
  try {
    std::vector<YAML::Node> documents = YAML::LoadAll(std::string(text));
    if (documents.empty() || documents[0].IsNull()) {
      return reader.Error(YAML::Mark::null_mark(), "the document is empty");
    }
    if (documents.size() > 1) {
      return reader.Error(documents[1].Mark(), "a second document: there must be only one");
    }
    const YAML::Node& root = documents[0];
    if (!root.IsMap()) {
      return reader.Error(root.Mark(), absl::StrCat("expected a mapping, found ", Found(root)));
    }
    map->Set("", PlaceInFile(file, root.Mark()));
    return reader.ReadMapping(root, "", out);
  } catch (const YAML::Exception& e) {
    return reader.Error(e.mark, absl::StrCat("not YAML: ", e.msg));
  }
}

// Edit distance, where swapping two neighbours is one edit, case ignored.
int EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<std::vector<int>> d(a.size() + 1, std::vector<int>(b.size() + 1));
  auto same = [](char x, char y) { return absl::ascii_tolower(x) == absl::ascii_tolower(y); };
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t k = 0; k <= b.size(); ++k) {
      if (i == 0 || k == 0) {
        d[i][k] = static_cast<int>(i + k);
        continue;
      }
      d[i][k] = std::min(
          {d[i - 1][k] + 1, d[i][k - 1] + 1, d[i - 1][k - 1] + (same(a[i - 1], b[k - 1]) ? 0 : 1)});
      if (i > 1 && k > 1 && same(a[i - 1], b[k - 2]) && same(a[i - 2], b[k - 1])) {
        d[i][k] = std::min(d[i][k], d[i - 2][k - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::string SourceMap::At(const std::string& path) const {
  for (std::string at = path;;) {
    if (auto it = places_.find(at); it != places_.end()) return it->second;
    if (at.empty()) return file_;
    size_t cut = at.find_last_of(".[");
    at.resize(cut == std::string::npos ? 0 : cut);
  }
}

absl::Status SourceMap::Error(const std::string& path, absl::string_view message) const {
  return absl::InvalidArgumentError(absl::StrCat(At(path), ": ", message));
}

void SourceMap::Forget(const std::string& path) {
  auto below = [&path](const std::string& p) {
    return p.compare(0, path.size(), path) == 0 &&
           (p.size() == path.size() || p[path.size()] == '.' || p[path.size()] == '[');
  };
  for (auto it = places_.lower_bound(path); it != places_.end();) {
    if (it->first.compare(0, path.size(), path) != 0) break;
    it = below(it->first) ? places_.erase(it) : std::next(it);
  }
}

absl::Status ParseYaml(absl::string_view text, const std::string& file,
                       const std::vector<std::string>& overrides, Message* out, SourceMap* map) {
  map->set_file(file);
  RETURN_IF_ERROR(ParseDocument(text, file, out, map));
  for (const std::string& o : overrides) RETURN_IF_ERROR(ApplyOverride(o, map, out));
  return CheckRequired(*out, "", *map);
}

std::string NearestName(absl::string_view word, const std::vector<std::string>& candidates) {
  int best = std::max(1, static_cast<int>(word.size()) / 3) + 1;
  std::string nearest;
  for (const std::string& c : candidates) {
    int distance = EditDistance(word, c);
    // Half a word, such as "optim", is nearer to the whole than any other.
    bool prefix = word.size() >= 3 && absl::StartsWith(c, word);
    if (prefix) distance = 0;
    if (distance < best) {
      best = distance;
      nearest = c;
    }
  }
  return nearest;
}

std::string DidYouMean(absl::string_view word, const std::vector<std::string>& candidates) {
  std::string nearest = NearestName(word, candidates);
  return nearest.empty() ? "" : absl::StrCat("; did you mean \"", nearest, "\"?");
}

}  // namespace starling
