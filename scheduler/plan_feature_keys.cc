#include "scheduler/plan_feature_keys.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"

namespace starling {
namespace {

constexpr const char* kKinds[] = {"id",     "raw",   "bucketize", "combo",
                                  "lookup", "match", "expr",      "sequence"};
// Keys of every kind that gives ids, or numbers.
constexpr const char* kIdKeys[] = {"dim",  "table",      "pooling", "vocabulary",
                                   "salt", "max_length", "default", "default_int"};
constexpr const char* kRawKeys[] = {"norm", "missing", "minmax", "zscore", "clip"};
// Keys of some kinds.
struct KindKey {
  const char* key;
  std::vector<std::string> kinds;
};
const std::vector<KindKey>& KindKeys() {
  static const auto& keys = *new std::vector<KindKey>{
      {"separator", {"id"}},
      {"weighted", {"id"}},
      {"weights", {"id"}},
      {"width", {"raw"}},
      {"boundaries", {"bucketize", "lookup", "match", "expr"}},
      {"as", {"lookup", "match"}},
      {"name", {"id", "bucketize", "combo", "lookup", "match", "expr"}},
  };
  return keys;
}

bool Has(const FeatureBlock& block, const std::string& key) {
  const auto* field = block.GetDescriptor()->FindFieldByName(key);
  const auto* reflection = block.GetReflection();
  return field->is_repeated() ? reflection->FieldSize(block, field) > 0
                              : reflection->HasField(block, field);
}

absl::Status CheckKindKeys(const FeatureBlock& block, const std::string& kind,
                           const std::string& path, const SourceMap& map) {
  for (const KindKey& rule : KindKeys()) {
    const auto& kinds = rule.kinds;
    if (!Has(block, rule.key) || std::find(kinds.begin(), kinds.end(), kind) != kinds.end()) {
      continue;
    }
    return map.Error(absl::StrCat(path, ".", rule.key),
                     absl::StrCat(rule.key, " belongs to ", absl::StrJoin(kinds, ", "),
                                  " features, but this block lists ", kind, " features"));
  }
  return absl::OkStatus();
}

absl::Status CheckOutputKeys(const FeatureBlock& block, const std::string& kind, bool ids,
                             const std::string& path, const SourceMap& map) {
  auto refuse = [&](const char* key) {
    const std::string lists = kind == "id" || kind == "raw"
                                  ? absl::StrCat("lists ", kind, " features")
                                  : absl::StrCat("makes ", ids ? "ids" : "numbers");
    return map.Error(
        absl::StrCat(path, ".", key),
        absl::StrCat(key, " belongs to ", ids ? "raw" : "id", " features, but this block ", lists));
  };
  if (ids) {
    for (const char* key : kRawKeys) {
      if (Has(block, key)) return refuse(key);
    }
  } else {
    for (const char* key : kIdKeys) {
      // A sequence of numbers is cut and pooled like one of ids.
      const std::string name = key;
      if (kind == "sequence" && (name == "pooling" || name == "max_length")) continue;
      if (Has(block, key)) return refuse(key);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckIdValues(const FeatureBlock& block, const std::string& kind,
                           const std::string& path, const SourceMap& map) {
  auto error = [&](const char* key, absl::string_view what) {
    return map.Error(absl::StrCat(path, ".", key), absl::StrCat(key, " ", what));
  };
  if (block.has_max_length() && (block.max_length() < 1 || block.max_length() > 1 << 20)) {
    return error("max_length", "must be in 1..1048576");
  }
  if (block.has_separator() && block.separator().empty()) return error("separator", "is empty");
  if (block.weighted() && block.has_weights()) {
    return error("weights", "beside weighted: the ids' weights stand in one place");
  }
  if (block.has_default_() && block.has_default_int()) {
    return error("default_int", "beside default: the ids are either text or integers");
  }
  // Buckets and combinations are integers; what maps hold is taken as text.
  const bool integers = block.boundaries_size() > 0 || kind == "combo";
  if (integers && block.has_default_()) {
    return error("default", "is text, but these ids are integers: use default_int");
  }
  if (!integers && (kind == "lookup" || kind == "match") && block.has_default_int()) {
    return error("default_int", "is an integer, but these ids are text: use default");
  }
  return absl::OkStatus();
}

absl::Status CheckBoundaries(const FeatureBlock& block, const std::string& kind,
                             const std::string& path, const SourceMap& map) {
  if (kind == "bucketize" && block.boundaries().empty()) {
    return map.Error(path, "bucketize needs boundaries, as in {boundaries: [1, 10, 100]}");
  }
  for (int i = 1; i < block.boundaries_size(); ++i) {
    if (block.boundaries(i - 1) < block.boundaries(i)) continue;
    return map.Error(absl::StrCat(path, ".boundaries[", i, "]"), "boundaries must ascend");
  }
  return absl::OkStatus();
}

absl::Status CheckRawValues(const FeatureBlock& block, const std::string& path,
                            const SourceMap& map) {
  auto error = [&](const char* key, absl::string_view what) {
    return map.Error(absl::StrCat(path, ".", key), what);
  };
  const bool log1p = block.norm() != RawFeature::NONE;
  if (block.has_minmax() && (log1p || block.has_zscore())) {
    return error("minmax", "a number has one norm: norm, minmax or zscore");
  }
  if (block.has_zscore() && log1p) {
    return error("zscore", "a number has one norm: norm, minmax or zscore");
  }
  if (block.has_minmax() && !(block.minmax().min() < block.minmax().max())) {
    return error("minmax", "min must be less than max");
  }
  if (block.has_clip() && !(block.clip().min() <= block.clip().max())) {
    return error("clip", "min must not be more than max");
  }
  if (block.has_zscore() && !(block.zscore().stddev() > 0)) {
    return error("zscore.stddev", "stddev must be more than 0");
  }
  if (block.has_width() && (block.width() < 1 || block.width() > 4096)) {
    return error("width", "width must be in 1..4096");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> FeatureKind(const FeatureBlock& block, const std::string& path,
                                        const SourceMap& map) {
  std::string found;
  for (const char* kind : kKinds) {
    if (!Has(block, kind)) continue;
    if (found.empty()) {
      found = kind;
    } else {
      return map.Error(absl::StrCat(path, ".", kind),
                       absl::StrCat(kind, " beside ", found,
                                    ": a feature block has one kind; write two blocks"));
    }
  }
  if (!found.empty()) return found;
  return map.Error(path, absl::StrCat("a feature block is one of ", absl::StrJoin(kKinds, ", "),
                                      ": this one has none"));
}

bool GivesIds(const FeatureBlock& block, const std::string& kind) {
  if (kind == "lookup" || kind == "match" || kind == "expr") {
    return block.boundaries_size() > 0 || block.as() == FeatureBlock::ID;
  }
  if (kind == "sequence") return block.sequence().ids_size() > 0;
  return kind != "raw";
}

absl::Status CheckFeatureKeys(const FeatureBlock& block, const std::string& kind,
                              const std::string& path, const SourceMap& map) {
  const bool ids = GivesIds(block, kind);
  const bool both = block.sequence().ids_size() > 0 && block.sequence().raws_size() > 0;
  RETURN_IF_ERROR(CheckKindKeys(block, kind, path, map));
  if (!both) RETURN_IF_ERROR(CheckOutputKeys(block, kind, ids, path, map));
  if (block.boundaries_size() > 0 && block.as() == FeatureBlock::ID) {
    return map.Error(path + ".as", "as: id beside boundaries, which take the value as a number");
  }
  RETURN_IF_ERROR(CheckBoundaries(block, kind, path, map));
  RETURN_IF_ERROR(CheckIdValues(block, kind, path, map));
  return CheckRawValues(block, path, map);
}

}  // namespace starling
