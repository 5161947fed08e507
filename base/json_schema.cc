// JsonSchema: the schema of what ParseYaml reads, so that editors complete and check job files.
#include <nlohmann/json.hpp>
#include <set>

#include "base/options.pb.h"
#include "base/yaml_proto.h"
#include "base/yaml_values.h"

namespace starling {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using Json = nlohmann::ordered_json;

Json Integer(const FieldDescriptor& field) {
  Json out = {{"type", "integer"}};
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      out["minimum"] = std::numeric_limits<int32_t>::min();
      out["maximum"] = std::numeric_limits<int32_t>::max();
      break;
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64:
      out["minimum"] = 0;
      break;
    default:
      break;
  }
  return out;
}

Json Scalar(const FieldDescriptor& field) {
  if (field.options().GetExtension(unit) == UNIT_BYTES) {
    return {{"type", {"integer", "string"}}, {"minimum", 0}, {"pattern", ByteSizePattern()}};
  }
  if (field.options().GetExtension(unit) == UNIT_DURATION) {
    return {{"type", {"number", "string"}}, {"minimum", 0}, {"pattern", DurationPattern()}};
  }
  if (field.options().GetExtension(unit) == UNIT_COUNT) {
    return {{"type", {"integer", "string"}}, {"minimum", 0}, {"pattern", "^auto$"}};
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return {{"$ref", "#/$defs/" + field.message_type()->name()}};
    case FieldDescriptor::CPPTYPE_ENUM:
      return {{"enum", EnumNames(*field.enum_type())}};
    case FieldDescriptor::CPPTYPE_STRING:
      return {{"type", {"string", "number", "boolean"}}};  // Any scalar is text where text is due.
    case FieldDescriptor::CPPTYPE_BOOL:
      return {{"type", "boolean"}};
    case FieldDescriptor::CPPTYPE_DOUBLE:
    case FieldDescriptor::CPPTYPE_FLOAT:
      return {{"type", "number"}};
    default:
      return Integer(field);
  }
}

Json Default(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return field.default_value_int32();
    case FieldDescriptor::CPPTYPE_INT64:
      return field.default_value_int64();
    case FieldDescriptor::CPPTYPE_UINT32:
      return field.default_value_uint32();
    case FieldDescriptor::CPPTYPE_UINT64:
      return field.default_value_uint64();
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return field.default_value_double();
    case FieldDescriptor::CPPTYPE_FLOAT:
      return field.default_value_float();
    case FieldDescriptor::CPPTYPE_BOOL:
      return field.default_value_bool();
    case FieldDescriptor::CPPTYPE_ENUM:
      return EnumNames(*field.enum_type())[field.default_value_enum()->index()];
    default:
      return field.default_value_string();
  }
}

Json Property(const FieldDescriptor& field) {
  Json value = Scalar(field), out;
  if (field.is_repeated()) {
    Json list = {{"type", "array"}, {"items", value}};
    if (field.options().GetExtension(required)) list["minItems"] = 1;
    // A lone scalar is a list of one.
    out = value.contains("$ref") ? list : Json{{"anyOf", {value, list}}};
  } else {
    out = value;
  }
  if (field.options().HasExtension(doc)) out["description"] = field.options().GetExtension(doc);
  if (field.has_default_value()) out["default"] = Default(field);
  return out;
}

// At most one member: each alone, or none.
Json OneofRule(const google::protobuf::OneofDescriptor& oneof) {
  Json each = Json::array();
  for (int i = 0; i < oneof.field_count(); ++i) {
    each.push_back({{"required", {oneof.field(i)->name()}}});
  }
  Json rule = {{"oneOf", each}};
  rule["oneOf"].push_back({{"not", {{"anyOf", each}}}});
  return rule;
}

Json Object(const Descriptor& type) {
  Json out = {{"type", "object"}, {"additionalProperties", false}, {"properties", Json::object()}};
  Json needed = Json::array(), rules = Json::array();
  for (int i = 0; i < type.field_count(); ++i) {
    out["properties"][type.field(i)->name()] = Property(*type.field(i));
    if (type.field(i)->options().GetExtension(required)) needed.push_back(type.field(i)->name());
  }
  for (int i = 0; i < type.oneof_decl_count(); ++i) {
    rules.push_back(OneofRule(*type.oneof_decl(i)));
  }
  if (!needed.empty()) out["required"] = needed;
  if (!rules.empty()) out["allOf"] = rules;
  return out;
}

void AddDefs(const Descriptor& type, Json* defs) {
  for (int i = 0; i < type.field_count(); ++i) {
    const Descriptor* child = type.field(i)->message_type();
    if (child == nullptr || defs->contains(child->name())) continue;
    (*defs)[child->name()] = Object(*child);
    (*defs)[child->name()]["type"] = {"object", "null"};  // A key without a value is an empty one.
    AddDefs(*child, defs);
  }
}

}  // namespace

std::string JsonSchema(const Descriptor& type) {
  Json out = {{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", type.name()}};
  out.update(Object(type));
  Json defs = Json::object();
  AddDefs(type, &defs);
  out["$defs"] = defs;
  return out.dump(2) + "\n";
}

}  // namespace starling
