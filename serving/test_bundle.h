// A small DeepFM for the tests of this folder: two tables (the second with a
// list feature beside a plain one), a raw feature with log1p and one without.
// Weights follow from the version, so that two versions give different scores.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/test_root.h"
#include "dense_net/forward.h"
#include "serving/bundle.h"

namespace starling {

constexpr int kTestKnownIds = 100;  // user 0..99, "item0".."item99", "tag0".."tag99" have rows.

inline std::string TestDir(const std::string& name) {
  std::string dir = JoinPath(TestRoot(), name);
  EXPECT_TRUE(RemoveAll(dir).ok());
  return dir;
}

inline IdFeature TestId(const std::string& name, int table, IdFeature::Pooling pooling) {
  IdFeature id;
  id.set_name(name);
  id.set_vocabulary(name);
  id.set_table(table);
  id.set_pooling(pooling);
  return id;
}

inline TableSpec TestTable(const std::string& name) {
  TableSpec table;
  table.mutable_options()->set_name(name);
  table.set_seed(0xFEDCBA9876543210ull);  // Beyond what a JSON number holds.
  for (int dim : {1, 4}) {
    SegmentSpec* segment = table.add_segments();
    segment->set_name(dim == 1 ? "linear" : "embedding");
    segment->set_dim(dim);
    segment->mutable_optimizer()->mutable_adagrad()->set_lr(0.05);
  }
  return table;
}

inline void AddTestSlot(const std::string& name, int table, int slot, GraphSpec* graph) {
  SlotSpec* s = graph->add_slots();
  s->set_name(name);
  s->set_table(table);
  s->set_slot(slot);
  s->set_linear_offset(0);
  s->set_embedding_offset(1);
  s->set_embedding_dim(4);
}

inline BundleSpec TestSpec(uint64_t version) {
  BundleSpec spec;
  spec.info.set_model("clicks");
  spec.info.set_version(version);
  spec.info.set_step(10 * version);
  *spec.features.add_ids() = TestId("user", 0, IdFeature::SUM);
  *spec.features.add_ids() = TestId("item", 1, IdFeature::SUM);
  *spec.features.add_ids() = TestId("tags", 1, IdFeature::MEAN);
  spec.features.set_tables(2);
  spec.features.set_label("click");
  RawFeature* price = spec.features.add_raws();
  price->set_name("price");
  price->set_norm(RawFeature::LOG1P);
  RawFeature* age = spec.features.add_raws();
  age->set_name("age");
  age->set_missing(0.3);
  *spec.tables.add_tables() = TestTable("users");
  *spec.tables.add_tables() = TestTable("items/all");
  spec.graph.mutable_model()->mutable_deepfm()->add_hidden(8);
  AddTestSlot("user", 0, 0, &spec.graph);
  AddTestSlot("item", 1, 0, &spec.graph);
  AddTestSlot("tags", 1, 1, &spec.graph);
  spec.graph.add_raws("price");
  spec.graph.add_raws("age");
  spec.graph.add_table_width(5);
  spec.graph.add_table_width(5);
  spec.graph.set_seed(77 + version);
  return spec;
}

// The weights of an id: the truth that lookups are compared with.
inline std::vector<float> TestRow(uint64_t version, uint64_t id) {
  std::vector<float> row(5);
  for (int i = 0; i < 5; ++i) {
    row[i] = static_cast<float>(0.5 * RandomNormal(id + 1000 * version, i));
  }
  return row;
}

inline std::vector<uint64_t> TestIds(int table) {
  std::vector<uint64_t> ids;
  for (int i = 0; i < kTestKnownIds; ++i) {
    if (table == 0) {
      ids.push_back(HashInt64(i, VocabularySeed("user")));
    } else {
      ids.push_back(HashBytes(absl::StrCat("item", i), VocabularySeed("item")));
      ids.push_back(HashBytes(absl::StrCat("tag", i), VocabularySeed("tags")));
    }
  }
  std::sort(ids.begin(), ids.end(), IdBefore);
  return ids;
}

inline std::vector<float> TestDense(const BundleSpec& spec) {
  auto network = Network::Create(spec.graph, NetworkOptions());
  EXPECT_TRUE(network.ok()) << network.status();
  std::vector<float> dense((*network)->param_floats());
  (*network)->InitParams(dense);
  return dense;
}

// Rows of the tables with three floats of optimiser state behind the weights.
inline RowEmitter TestRows(uint64_t version) {
  return [version](int table, const std::function<absl::Status(const RowRecord&)>& emit) {
    for (uint64_t id : TestIds(table)) {
      std::vector<float> floats = TestRow(version, id);
      floats.insert(floats.end(), {9, 9, 9});
      absl::Status status = emit(RowRecord{.id = id, .floats = floats});
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  };
}

inline absl::Status WriteTestBundle(const std::string& dir, uint64_t version) {
  BundleSpec spec = TestSpec(version);
  return WriteBundle(dir, spec, TestDense(spec), TestRows(version));
}

}  // namespace starling
