#include "base/yaml_proto.h"

#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/options.pb.h"

namespace starling {
namespace {

// A schema with every kind of field, as protoc would describe it.
constexpr char kSchema[] = R"(
name: "yaml_test.proto" package: "yaml_test" dependency: "base/options.proto"
message_type { name: "Leaf"
  field { name: "lr" number: 1 label: LABEL_OPTIONAL type: TYPE_DOUBLE default_value: "0.5" }
}
message_type { name: "Choice" oneof_decl { name: "rule" }
  field { name: "sgd" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: "Leaf" oneof_index: 0 }
  field { name: "adam" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: "Leaf" oneof_index: 0 }
  field { name: "count" number: 3 label: LABEL_OPTIONAL type: TYPE_INT32 oneof_index: 0 }
}
message_type { name: "Block"
  enum_type { name: "Norm" value { name: "NONE" number: 0 } value { name: "LOG1P" number: 1 } }
  field { name: "id" number: 1 label: LABEL_REPEATED type: TYPE_STRING options { [starling.ranges]: true } }
  field { name: "dim" number: 2 label: LABEL_OPTIONAL type: TYPE_INT32 default_value: "16" }
  field { name: "norm" number: 3 label: LABEL_OPTIONAL type: TYPE_ENUM type_name: "Norm" }
  field { name: "memory" number: 4 label: LABEL_OPTIONAL type: TYPE_INT64 options { [starling.unit]: UNIT_BYTES } }
  field { name: "ttl" number: 5 label: LABEL_OPTIONAL type: TYPE_DOUBLE options { [starling.unit]: UNIT_DURATION } }
  field { name: "shuffle" number: 6 label: LABEL_OPTIONAL type: TYPE_BOOL default_value: "true" }
}
message_type { name: "Data"
  field { name: "train" number: 1 label: LABEL_REPEATED type: TYPE_STRING }
  field { name: "label" number: 2 label: LABEL_OPTIONAL type: TYPE_STRING
          options { [starling.required]: true [starling.doc]: "Column with the label" } }
  field { name: "seed" number: 3 label: LABEL_OPTIONAL type: TYPE_UINT64 }
  field { name: "hidden" number: 4 label: LABEL_REPEATED type: TYPE_INT32 }
}
message_type { name: "Top"
  field { name: "data" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: "Data" options { [starling.required]: true } }
  field { name: "features" number: 2 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: "Block" }
  field { name: "model" number: 3 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: "Choice" }
}
)";

class Schema {
 public:
  Schema() : pool_(google::protobuf::DescriptorPool::generated_pool()) {
    (void)Unit_descriptor();  // Links base/options.proto in.
    google::protobuf::FileDescriptorProto file;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(kSchema, &file));
    EXPECT_NE(pool_.BuildFile(file), nullptr);
  }
  const google::protobuf::Descriptor& top() const {
    return *pool_.FindMessageTypeByName("yaml_test.Top");
  }
  std::unique_ptr<google::protobuf::Message> New() {
    return std::unique_ptr<google::protobuf::Message>(factory_.GetPrototype(&top())->New());
  }

 private:
  google::protobuf::DescriptorPool pool_;
  google::protobuf::DynamicMessageFactory factory_;
};

Schema& TheSchema() {
  static Schema* schema = new Schema;
  return *schema;
}

struct Parsed {
  absl::Status status;
  std::string text;  // The message as one line of text format.
  SourceMap map;
};
Parsed Parse(absl::string_view yaml, const std::vector<std::string>& set = {}) {
  Parsed out;
  auto message = TheSchema().New();
  out.status = ParseYaml(yaml, "job.yaml", set, message.get(), &out.map);
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  printer.PrintToString(*message, &out.text);
  return out;
}

std::string TextOf(absl::string_view yaml, const std::vector<std::string>& set = {}) {
  Parsed p = Parse(yaml, set);
  return p.status.ok() ? p.text : "error: " + std::string(p.status.message());
}

TEST(YamlProtoTest, ReadsEveryKindOfValue) {
  EXPECT_EQ(TextOf(R"(
data: {train: logs/, label: click, seed: 18446744073709551615, hidden: [400, 200]}
features:
  - {id: [C1..C3, user], dim: 8, norm: log1p, memory: 4GiB, ttl: 30d, shuffle: false}
  - id: f08..f11
model: {sgd: {lr: 1e-2}}
)"),
            "data { train: \"logs/\" label: \"click\" seed: 18446744073709551615 hidden: 400 "
            "hidden: 200 } features { id: \"C1\" id: \"C2\" id: \"C3\" id: \"user\" dim: 8 norm: "
            "LOG1P memory: 4294967296 ttl: 2592000 shuffle: false } features { id: \"f08\" id: "
            "\"f09\" id: \"f10\" id: \"f11\" } model { sgd { lr: 0.01 } } ");
}

TEST(YamlProtoTest, KeyWithoutValueIsAnEmptyMapping) {
  EXPECT_EQ(TextOf("data: {label: y}\nmodel:\n  adam:\n"),
            "data { label: \"y\" } model { adam { } } ");
}

TEST(YamlProtoTest, UnitsTakeAnyCaseAndSpaces) {
  auto memory = [](std::string value) {
    return TextOf("data: {label: y}\nfeatures: [{memory: " + value + "}]\n");
  };
  EXPECT_EQ(memory("4gib"), "data { label: \"y\" } features { memory: 4294967296 } ");
  EXPECT_EQ(memory("512 MB"), "data { label: \"y\" } features { memory: 512000000 } ");
  EXPECT_EQ(memory("1.5KiB"), "data { label: \"y\" } features { memory: 1536 } ");
  EXPECT_EQ(memory("77"), "data { label: \"y\" } features { memory: 77 } ");
  EXPECT_EQ(TextOf("data: {label: y}\nfeatures: [{ttl: 10min}, {ttl: 20ms}, {ttl: 3}]\n"),
            "data { label: \"y\" } features { ttl: 600 } features { ttl: 0.02 } features { ttl: 3 "
            "} ");
}

struct BadCase {
  const char* yaml;
  const char* message;
};

TEST(YamlProtoTest, EveryErrorNamesItsPlaceAndWhatIsWrong) {
  const BadCase cases[] = {
      {"", "job.yaml:1:1: the document is empty"},
      {"# nothing but words\n", "job.yaml:1:1: the document is empty"},
      {"- a\n", "job.yaml:1:1: expected a mapping, found a list"},
      {"data: {label: y\n", "job.yaml:2:1: not YAML: end of map flow not found"},
      {"data: {label: y}\n---\ndata: {label: y}\n",
       "job.yaml:3:1: a second document: there must be only one"},
      {"data: {label: y}\nmodle: {}\n",
       "job.yaml:2:1: unknown key \"modle\"; did you mean \"model\"?"},
      {"data: {label: y}\nzzz: {}\n",
       "job.yaml:2:1: unknown key \"zzz\"; keys are data, features, model"},
      {"data:\n  label: y\n  label: z\n", "job.yaml:3:3: duplicate key \"label\""},
      {"data: {label: y}\ndata: {label: y}\n", "job.yaml:2:1: duplicate key \"data\""},
      {"data: {label: y, seed: x}\n", "job.yaml:1:24: seed: expected an integer, found \"x\""},
      {"data: {label: y, seed: \"1\"}\n",
       "job.yaml:1:24: seed: expected an integer, found the quoted string \"1\"; remove the "
       "quotes"},
      {"data: {label: y, seed: 1.5}\n", "job.yaml:1:24: seed: expected an integer, found \"1.5\""},
      {"data: {label: y, seed: -1}\n",
       "job.yaml:1:24: seed: -1 is out of range 0..18446744073709551615"},
      {"data: {label: y, seed: [1]}\n", "job.yaml:1:24: seed: expected an integer, found a list"},
      {"data: {label: {a: b}}\n", "job.yaml:1:15: label: expected a string, found a mapping"},
      {"data:\n  label:\n  seed: 1\n", "job.yaml:2:3: label: expected a string, found nothing"},
      {"data: {label: y, train: {a: b}}\n",
       "job.yaml:1:25: train: expected a list, found a mapping"},
      {"data: {label: y, hidden: [1, [2]]}\n",
       "job.yaml:1:30: hidden: expected an integer, found a list"},
      {"data: 7\n", "job.yaml:1:7: data: expected a mapping, found \"7\""},
      {"data: {label: y}\nfeatures: {dim: 1}\n",
       "job.yaml:2:11: features: expected a list, found a mapping"},
      {"data: {label: y}\nfeatures: [{dim: 99999999999}]\n",
       "job.yaml:2:18: dim: 99999999999 is out of range -2147483648..2147483647"},
      {"data: {label: y}\nfeatures: [{shuffle: yes}]\n",
       "job.yaml:2:22: shuffle: expected true or false, found \"yes\""},
      {"data: {label: y}\nfeatures: [{norm: log1}]\n",
       "job.yaml:2:19: norm: expected one of none, log1p, found \"log1\"; did you mean \"log1p\"?"},
      {"data: {label: y}\nfeatures: [{memory: 4 gigs}]\n",
       "job.yaml:2:21: memory: expected a size such as 4GiB: found \"4 gigs\": no unit \"gigs\"; "
       "units are B, KB, MB, GB, TB, KiB, MiB, GiB, TiB"},
      {"data: {label: y}\nfeatures: [{memory: -1}]\n",
       "job.yaml:2:21: memory: expected a size such as 4GiB: found \"-1\"; units are B, KB, MB, "
       "GB, TB, KiB, MiB, GiB, TiB"},
      {"data: {label: y}\nfeatures: [{ttl: 10m}]\n",
       "job.yaml:2:18: ttl: expected a duration such as 30d: found \"10m\": no unit \"m\"; units "
       "are ms, s, min, h, d, w"},
      {"data: {label: y}\nfeatures: [{id: [C1..D5]}]\n",
       "job.yaml:2:18: bad range \"C1..D5\": the ends differ before the number, \"C\" and \"D\""},
      {"data: {label: y}\nfeatures: [{id: C5..C1}]\n",
       "job.yaml:2:17: bad range \"C5..C1\": it runs backwards"},
      {"data: {label: y}\nfeatures: [{id: f01..f100}]\n",
       "job.yaml:2:17: bad range \"f01..f100\": zero-padded ends differ in length"},
      {"data: {label: y}\nfeatures: [{id: C..C4}]\n",
       "job.yaml:2:17: bad range \"C..C4\": both ends need a number, as in C1..C26"},
      {"data: {label: y}\nfeatures: [{id: C1..C999999999}]\n",
       "job.yaml:2:17: bad range \"C1..C999999999\": more than 100000 elements"},
      {"data: {label: y}\nmodel: {sgd: {lr: nan}}\n",
       "job.yaml:2:19: lr: expected a number, found \"nan\""},
      {"data: {label: y}\nmodel: {sgd: {}, adam: {}}\n",
       "job.yaml:2:18: \"adam\" beside \"sgd\": give only one of sgd, adam, count"},
      {"features: []\n", "job.yaml:1:1: missing key \"data\""},
      {"model: {}\ndata:\n  seed: 1\n",
       "job.yaml:2:1: data: missing key \"label\" (Column with the label)"},
  };
  for (const BadCase& c : cases) {
    absl::Status status = Parse(c.yaml).status;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.yaml;
    EXPECT_EQ(status.message(), c.message) << c.yaml;
  }
}

TEST(YamlProtoTest, EveryPathKnowsItsPlace) {
  Parsed p = Parse(
      "data:\n"
      "  label: y\n"
      "  train: logs\n"
      "features:\n"
      "  - {id: [a, C1..C3, b], dim: 8}\n"
      "  - id: c\n");
  ASSERT_TRUE(p.status.ok()) << p.status;
  EXPECT_EQ(p.map.At("data"), "job.yaml:1:1");
  EXPECT_EQ(p.map.At("data.label"), "job.yaml:2:10");
  EXPECT_EQ(p.map.At("data.train[0]"), "job.yaml:3:10");
  EXPECT_EQ(p.map.At("features[0].id[0]"), "job.yaml:5:11");
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(p.map.At(absl::StrCat("features[0].id[", i, "]")), "job.yaml:5:14");
  }
  EXPECT_EQ(p.map.At("features[0].id[4]"), "job.yaml:5:22");
  EXPECT_EQ(p.map.At("features[1].id[0]"), "job.yaml:6:9");
  EXPECT_EQ(p.map.At("features[1].dim"), "job.yaml:6:5");  // Not written: its block.
  EXPECT_EQ(p.map.At("model.sgd.lr"), "job.yaml:1:1");     // Nothing near: the document.
  EXPECT_EQ(p.map.Error("data.label", "no").message(), "job.yaml:2:10: no");
}

TEST(YamlProtoTest, OverridesReplaceValuesListsElementsAndOneofMembers) {
  const char* yaml =
      "data: {label: y, train: [x]}\nfeatures: [{dim: 1, id: [a, b]}]\nmodel: {sgd: {lr: 1}}\n";
  EXPECT_EQ(
      TextOf(yaml, {"data.train=[a,b]", "features[0].dim=8", "features[0].id[1]=c",
                    "model.adam.lr=0.25", "data.seed=3", "data.label=null", "data.label=click"}),
      "data { train: \"a\" train: \"b\" label: \"click\" seed: 3 } features { id: \"a\" id: "
      "\"c\" dim: 8 } model { adam { lr: 0.25 } } ");
  EXPECT_EQ(TextOf("data:\n", {"data.label=z"}), "data { label: \"z\" } ");
  Parsed p = Parse(yaml, {"data.train=[a,b]"});
  EXPECT_EQ(p.map.At("data.train[1]"), "--set data.train=[a,b]");
  EXPECT_EQ(p.map.At("data.label"), "job.yaml:1:15");
}

TEST(YamlProtoTest, OverrideErrorsNameTheOverride) {
  const char* yaml = "data: {label: y}\nfeatures: [{dim: 1}]\n";
  const std::pair<const char*, const char*> cases[] = {
      {"data.batch", "--set data.batch: expected key=value"},
      {"data.sed=3", "--set data.sed=3: unknown key \"sed\"; did you mean \"seed\"?"},
      {"data.seed=x", "--set data.seed=x: seed: expected an integer, found \"x\""},
      {"features[1].dim=2", "--set features[1].dim=2: \"features\" has 1 elements"},
      {"features[x].dim=2",
       "--set features[x].dim=2: \"features[x]\": expected an index, as in features[0]"},
      {"features.dim=2", "--set features.dim=2: \"features\" is a list: nothing is below it"},
      {"data.label.x=2", "--set data.label.x=2: \"data.label\" is a string: nothing is below it"},
      {"data.train=[a", "--set data.train=[a: end of sequence flow not found"},
      {"data=null", "job.yaml:1:1: missing key \"data\""},
  };
  for (const auto& [set, message] : cases) {
    EXPECT_EQ(Parse(yaml, {set}).status.message(), message);
  }
}

TEST(YamlProtoTest, NearestNameKnowsTyposSwapsCaseAndPrefixes) {
  std::vector<std::string> names = {"train", "eval", "optimizer", "lr", "dnn", "dcnv2"};
  EXPECT_EQ(NearestName("trian", names), "train");
  EXPECT_EQ(NearestName("EVAL", names), "eval");
  EXPECT_EQ(NearestName("optim", names), "optimizer");
  EXPECT_EQ(NearestName("dcn", names), "dcnv2");
  EXPECT_EQ(NearestName("xyzzy", names), "");
  EXPECT_EQ(DidYouMean("xyzzy", names), "");
}

TEST(YamlProtoTest, JsonSchemaSaysWhatTheReaderTakes) {
  auto schema = nlohmann::json::parse(JsonSchema(TheSchema().top()));
  EXPECT_EQ(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
  EXPECT_EQ(schema["required"], nlohmann::json({"data"}));
  EXPECT_EQ(schema["additionalProperties"], false);
  EXPECT_EQ(schema["properties"]["model"]["$ref"], "#/$defs/Choice");
  EXPECT_EQ(schema["$defs"]["Choice"]["type"], nlohmann::json({"object", "null"}));
  const auto& block = schema["$defs"]["Block"]["properties"];
  EXPECT_EQ(block["dim"]["default"], 16);
  EXPECT_EQ(block["norm"]["enum"], nlohmann::json({"none", "log1p"}));
  EXPECT_NE(block["memory"]["pattern"].get<std::string>().find("[Gg][Ii][Bb]"), std::string::npos);
  EXPECT_EQ(schema["$defs"]["Data"]["properties"]["label"]["description"], "Column with the label");
  EXPECT_EQ(schema["$defs"]["Choice"]["allOf"][0]["oneOf"].size(), 4u);  // Each of three, or none.
}

}  // namespace
}  // namespace starling
