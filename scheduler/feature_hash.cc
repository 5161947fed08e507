// FeatureHash: field by field, so that it depends on no serialisation.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/hash.h"
#include "scheduler/plan.h"

namespace starling {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

std::string Text(const Message& message, const FieldDescriptor& field, int i) {
  const auto& r = *message.GetReflection();
  const bool many = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return many ? r.GetRepeatedString(message, &field, i) : r.GetString(message, &field);
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      const double x =
          many ? r.GetRepeatedDouble(message, &field, i) : r.GetDouble(message, &field);
      return absl::StrFormat("%.17g", x);
    }
    case FieldDescriptor::CPPTYPE_BOOL:
      return absl::StrCat(r.GetBool(message, &field));
    case FieldDescriptor::CPPTYPE_ENUM:
      return absl::StrCat(r.GetEnumValue(message, &field));
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::StrCat(r.GetInt64(message, &field));
    default:
      return absl::StrCat(r.GetInt32(message, &field));
  }
}

// All fields that are present, by number, and those of the messages inside.
void AddMessage(const Message& message, uint64_t* hash) {
  const auto& r = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  r.ListFields(message, &fields);  // Ordered by number.
  for (const FieldDescriptor* field : fields) {
    const int count = field->is_repeated() ? r.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      *hash = HashInt64(field->number(), *hash);
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        AddMessage(field->is_repeated() ? r.GetRepeatedMessage(message, field, i)
                                        : r.GetMessage(message, field),
                   hash);
        *hash = HashInt64(-1, *hash);
      } else {
        *hash = HashBytes(Text(message, *field, i), *hash);
      }
    }
  }
}

}  // namespace

// Label, event time and group are left out: they change no feature. What plain
// ids and numbers have comes first, as it ever did; the rest only if present.
uint64_t FeatureHash(const FeatureSet& features) {
  uint64_t hash = VocabularySeed("features");
  auto add = [&hash](absl::string_view text) { hash = HashBytes(text, hash); };
  for (const IdFeature& id : features.ids()) {
    add("id");
    add(id.name());
    add(id.vocabulary());
    add(absl::StrCat(id.table(), " ", id.pooling()));
    IdFeature rest = id;
    rest.clear_name();
    rest.clear_vocabulary();
    rest.clear_table();
    rest.clear_pooling();
    AddMessage(rest, &hash);
  }
  for (const RawFeature& raw : features.raws()) {
    add("raw");
    add(raw.name());
    add(absl::StrCat(raw.norm(), " ", raw.missing()));
    RawFeature rest = raw;
    rest.clear_name();
    rest.clear_norm();
    rest.clear_missing();
    AddMessage(rest, &hash);
  }
  return hash;
}

}  // namespace starling
