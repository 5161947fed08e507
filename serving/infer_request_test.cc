#include "serving/infer_request.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "serving/test_bundle.h"

namespace starling {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

absl::StatusOr<InferRequest> Parse(const std::string& body) {
  return ParseInferRequest(body, TestSpec(1).features, {"probability"}, 100);
}

// A request with one input.
std::string One(const std::string& name, const std::string& shape, const std::string& datatype,
                const std::string& data) {
  return absl::StrCat(R"({"inputs":[{"name":")", name, R"(","shape":)", shape, R"(,"datatype":")",
                      datatype, R"(","data":)", data, "}]}");
}

Column Only(const std::string& body, const std::string& name) {
  auto request = Parse(body);
  EXPECT_TRUE(request.ok()) << request.status();
  if (!request.ok()) return {};
  return *request->columns.Find(name);
}

void ExpectBad(const std::string& body, const std::string& part) {
  auto request = Parse(body);
  ASSERT_FALSE(request.ok()) << body;
  EXPECT_TRUE(absl::IsInvalidArgument(request.status()));
  EXPECT_THAT(std::string(request.status().message()), HasSubstr(part));
}

TEST(InferRequestTest, IntegersOfAnyWidthAreWidened) {
  for (const char* type : {"INT8", "INT16", "INT32", "INT64"}) {
    EXPECT_THAT(Only(One("user", "[3]", type, "[1, -2, 127]"), "user").ints,
                ElementsAre(1, -2, 127));
  }
  for (const char* type : {"UINT8", "UINT16", "UINT32", "UINT64"}) {
    EXPECT_THAT(Only(One("user", "[2]", type, "[0, 255]"), "user").ints, ElementsAre(0, 255));
  }
  EXPECT_THAT(Only(One("user", "[2]", "BOOL", "[true, false]"), "user").ints, ElementsAre(1, 0));
  Column all =
      Only(One("user", "[2]", "INT64", "[-9223372036854775808, 9223372036854775807]"), "user");
  EXPECT_THAT(all.ints, ElementsAre(std::numeric_limits<int64_t>::min(),
                                    std::numeric_limits<int64_t>::max()));
  EXPECT_THAT(Only(One("user", "[1]", "UINT64", "[18446744073709551615]"), "user").ints,
              ElementsAre(-1));
}

TEST(InferRequestTest, Fp32IsRoundedToFloatAndFp64IsNot) {
  EXPECT_THAT(Only(One("price", "[2]", "FP32", "[0.1, 3]"), "price").doubles,
              ElementsAre(static_cast<double>(0.1f), 3.0));
  EXPECT_THAT(Only(One("price", "[2]", "FP64", "[0.1, 1e300]"), "price").doubles,
              ElementsAre(0.1, 1e300));
}

TEST(InferRequestTest, NullIsMissing) {
  Column item = Only(One("item", "[3]", "BYTES", R"(["a", null, ""])"), "item");
  EXPECT_FALSE(item.IsNull(0));
  EXPECT_TRUE(item.IsNull(1));
  EXPECT_FALSE(item.IsNull(2));
  EXPECT_THAT(item.strings, ElementsAre("a", "", ""));
  EXPECT_FALSE(item.is_list);
  EXPECT_TRUE(Only(One("price", "[2, 1]", "FP64", "[[null], [1]]"), "price").IsNull(0));
}

TEST(InferRequestTest, AListFeaturesRowIsAnArray) {
  Column tags = Only(One("tags", "[4]", "BYTES", R"([["a", "b"], [], null, ["c", null]])"), "tags");
  EXPECT_TRUE(tags.is_list);
  EXPECT_THAT(tags.list_offsets, ElementsAre(0, 2, 2, 2, 3));
  EXPECT_THAT(tags.strings, ElementsAre("a", "b", "c"));
  EXPECT_TRUE(tags.IsNull(2));
  EXPECT_FALSE(tags.IsNull(1));
  Column ragged = Only(One("tags", "[2, -1]", "INT64", "[[1, 2], null]"), "tags");
  EXPECT_THAT(ragged.list_offsets, ElementsAre(0, 2, 2));
}

TEST(InferRequestTest, FlatAndNestedDataGiveTheSameColumn) {
  Column flat = Only(One("tags", "[2, 2]", "INT64", "[1, 2, null, 4]"), "tags");
  Column nested = Only(One("tags", "[2, 2]", "INT64", "[[1, 2], [null, 4]]"), "tags");
  EXPECT_THAT(flat.list_offsets, ElementsAre(0, 2, 3));
  EXPECT_EQ(flat.list_offsets, nested.list_offsets);
  EXPECT_EQ(flat.ints, nested.ints);
  Column plain = Only(One("user", "[2, 1]", "INT64", "[7, 8]"), "user");
  EXPECT_FALSE(plain.is_list);
  EXPECT_EQ(plain.ints, Only(One("user", "[2, 1]", "INT64", "[[7], [8]]"), "user").ints);
  EXPECT_EQ(plain.ints, Only(One("user", "[2]", "INT64", "[7, 8]"), "user").ints);
}

TEST(InferRequestTest, FeaturesLeftOutAreMissingInEveryRow) {
  auto request = Parse(One("user", "[2]", "INT64", "[1, 2]"));
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->columns.rows, 2);
  for (const char* name : {"item", "tags", "price", "age"}) {
    const Column* column = request->columns.Find(name);
    ASSERT_NE(column, nullptr) << name;
    EXPECT_TRUE(column->IsNull(0) && column->IsNull(1)) << name;
  }
}

TEST(InferRequestTest, WhatIsWrongIsNamed) {
  ExpectBad("", "not JSON");
  ExpectBad("{", "not JSON");
  ExpectBad("[]", "object");
  ExpectBad("{}", "`inputs`");
  ExpectBad(R"({"inputs":[]})", "`inputs`");
  ExpectBad(R"({"inputs":[{}]})", "inputs[0] has no `name`");
  ExpectBad(R"({"inputs":[{"name":"user"}]})", "no `shape`");
  ExpectBad(R"({"id":7,"inputs":[]})", "`id`");
  ExpectBad(One("usr", "[1]", "INT64", "[1]"), "did you mean \"user\"");
  ExpectBad(One("click", "[1]", "INT64", "[1]"), "no such feature");
  ExpectBad(One("user", "[2]", "INT64", "[1]"), "says 2 rows, `data` has 1");
  ExpectBad(One("user", "[2, 2]", "INT64", "[1, 2, 3]"), "does not fit");
  ExpectBad(One("user", "[1, 2]", "INT64", "[[1, 2, 3]]"), "element 0 has 3 values, not 2");
  ExpectBad(One("user", "[1, 1]", "INT64", "[[]]"), "element 0 has 0 values");
  ExpectBad(One("user", "[-1]", "INT64", "[1]"), "negative");
  ExpectBad(One("user", "[1, 1, 1]", "INT64", "[1]"), "`shape`");
  ExpectBad(One("user", "[1.5]", "INT64", "[1]"), "`shape`");
  ExpectBad(One("user", "[4000000000000000000, 4]", "INT64", "[1]"), "rows; one request");
  ExpectBad(One("user", "[101]", "INT64", "[]"), "101 rows; one request may hold 100");
  ExpectBad(One("user", "[1]", "INT65", "[1]"), "INT65");
  ExpectBad(One("user", "[1]", "INT64", "7"), "`data`");
  ExpectBad(One("user", "[3]", "INT64", "[1, 2, \"x\"]"), "element 2: \"x\" is not INT64");
  ExpectBad(One("user", "[1]", "INT64", "[1.0]"), "element 0: 1.0 is not INT64");
  ExpectBad(One("user", "[1]", "INT8", "[128]"), "128 is not INT8");
  ExpectBad(One("user", "[1]", "INT8", "[-129]"), "-129 is not INT8");
  ExpectBad(One("user", "[1]", "INT64", "[9223372036854775808]"), "is not INT64");
  ExpectBad(One("user", "[1]", "UINT64", "[-1]"), "is not UINT64");
  ExpectBad(One("user", "[1]", "BOOL", "[1]"), "is not BOOL");
  ExpectBad(One("item", "[1]", "BYTES", "[1]"), "is not BYTES");
  ExpectBad(One("price", "[1]", "FP64", "[\"NaN\"]"), "is not FP64");
  ExpectBad(One("price", "[1]", "FP64", "[NaN]"), "not JSON");
  ExpectBad(One("price", "[1]", "FP32", "[1e39]"), "beyond FP32");
  ExpectBad(One("price", "[1]", "FP64", "[1e999]"), "not JSON");
  ExpectBad(One("tags", "[2]", "INT64", "[[1], 2]"), "element 1 is no array");
  ExpectBad(R"({"inputs":[{"name":"user","shape":[1],"datatype":"INT64","data":[1]},
                          {"name":"user","shape":[1],"datatype":"INT64","data":[1]}]})",
            "twice");
  ExpectBad(R"({"inputs":[{"name":"user","shape":[1],"datatype":"INT64","data":[1]},
                          {"name":"age","shape":[2],"datatype":"FP64","data":[1,2]}]})",
            "\"age\" has 2 rows, \"user\" has 1");
  ExpectBad(R"({"inputs":[{"name":"user","shape":[1],"datatype":"INT64","data":[1]}],
               "outputs":[{"name":"score"}]})",
            "\"probability\" alone");
}

TEST(InferRequestTest, DeepNestingIsRefusedBeforeItIsRead) {
  std::string deep(1'000'000, '[');
  ExpectBad(R"({"parameters":)" + deep, "deeper");
  ExpectBad(R"({"inputs":)" + deep + std::string(1'000'000, ']') + "}", "deeper");
  EXPECT_TRUE(
      Parse(One("item", "[1]", "BYTES", R"(["\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["])")).ok());
}

TEST(InferResponseTest, EveryFloatParsesBackToItself) {
  std::vector<float> scores = {0.1f, 1e-7f, 0.99999994f, 1.0f, 0.0f, 1.17549435e-38f, 1e-45f};
  for (int i = 0; i < 2000; ++i) scores.push_back(static_cast<float>(RandomUniform(9, i)));
  InferRequest request{.id = "\"a\\\"b\"", .parameters = "{\"x\":[1]}"};
  BundleInfo info;
  info.set_model("m\"1");
  info.set_version(12345678901234567ull);
  Json json = Json::parse(InferResponseJson(request, info, {"probability"}, scores));
  EXPECT_EQ(json["model_name"], "m\"1");
  EXPECT_EQ(json["model_version"], "12345678901234567");
  EXPECT_EQ(json["id"], "a\"b");
  EXPECT_EQ(json["parameters"], Json::parse("{\"x\":[1]}"));
  Json output = json["outputs"][0];
  EXPECT_EQ(output["name"], "probability");
  EXPECT_EQ(output["datatype"], "FP32");
  EXPECT_EQ(output["shape"], Json::array({scores.size()}));
  ASSERT_EQ(output["data"].size(), scores.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    ASSERT_EQ(output["data"][i].get<float>(), scores[i]);
  }
}

TEST(InferResponseTest, EachOutputIsATensorAndARequestMayPick) {
  const std::vector<std::string> outputs = {"ctr", "cvr"};
  const std::vector<float> scores = {.5f, .25f, .75f, .125f, 1, 0};  // (3 rows, 2)
  Json json = Json::parse(InferResponseJson({}, BundleInfo(), outputs, scores));
  ASSERT_EQ(json["outputs"].size(), 2u);
  EXPECT_EQ(json["outputs"][0], Json::parse(R"({"name":"ctr","datatype":"FP32","shape":[3],)"
                                            R"("data":[0.5,0.75,1]})"));
  EXPECT_EQ(json["outputs"][1]["data"], Json::parse("[0.25,0.125,0]"));

  const std::string body = R"({"inputs":[{"name":"user","shape":[1],"datatype":"INT64","data":[1]}],
                              "outputs":[{"name":"cvr"}]})";
  auto request = ParseInferRequest(body, TestSpec(1).features, outputs, 100);
  ASSERT_TRUE(request.ok()) << request.status();
  json = Json::parse(InferResponseJson(*request, BundleInfo(), outputs, scores));
  ASSERT_EQ(json["outputs"].size(), 1u);
  EXPECT_EQ(json["outputs"][0]["name"], "cvr");
  request = ParseInferRequest(body, TestSpec(1).features, {"ctr", "ctcvr"}, 100);
  EXPECT_EQ(request.status().message(), "output \"cvr\": the model has \"ctr\", \"ctcvr\"");
}

TEST(InferResponseTest, MetadataListsEveryFeature) {
  Json json = Json::parse(ModelMetadataJson(TestSpec(4), {"probability"}));
  EXPECT_EQ(json["name"], "clicks");
  EXPECT_EQ(json["versions"], Json::array({"4"}));
  ASSERT_EQ(json["inputs"].size(), 5u);
  EXPECT_EQ(json["inputs"][2], Json::parse(R"({"name":"tags","datatype":"INT64","shape":[-1]})"));
  EXPECT_EQ(json["inputs"][3]["datatype"], "FP64");
  EXPECT_EQ(json["outputs"][0]["name"], "probability");
}

TEST(InferResponseTest, AnErrorIsJsonWhateverTheBytes) {
  EXPECT_EQ(Json::parse(ErrorJson("a \"b\""))["error"], "a \"b\"");
  EXPECT_NO_THROW(Json::parse(ErrorJson("\xff\xfe")));
}

}  // namespace
}  // namespace starling
