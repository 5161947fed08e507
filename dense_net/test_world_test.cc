#include "dense_net/test_world.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/random.h"
#include "google/protobuf/text_format.h"

namespace starling {
namespace {

constexpr int kTables = 2, kSlots = 2;

void AddSlotSpecs(const WorldOptions& options, GraphSpec* spec) {
  for (int t = 0; t < kTables; ++t) {
    spec->add_table_width(options.dim + 1 + t);  // Table 1 has a float nobody reads.
    for (int s = 0; s < kSlots; ++s) {
      SlotSpec* slot = spec->add_slots();
      slot->set_name(absl::StrCat("f", t, s));
      slot->set_table(t);
      slot->set_slot(s);
      slot->set_linear_offset(t == 0 ? 0 : options.dim);
      slot->set_embedding_offset(t == 0 ? 1 : 0);
      slot->set_embedding_dim(options.dim);
    }
  }
}

// Slot 0: one value an entry. Slot 1: none to three, weighted in table 1.
Slot MakeSlot(uint64_t key, int table, int s, uint32_t entries, int ids) {
  Slot slot;
  uint64_t draw = 0;
  for (uint32_t e = 0; e < entries; ++e) {
    slot.offsets.push_back(static_cast<uint32_t>(slot.index.size()));
    const uint64_t values = s == 0 ? 1 : RandomBelow(key, draw++, 4);
    for (uint64_t v = 0; v < values; ++v) {
      slot.index.push_back(static_cast<uint32_t>(RandomBelow(key, draw++, ids)));
      if (s == 1 && table == 1) {
        slot.weights.push_back(static_cast<float>(0.5 + RandomUniform(key, draw++)));
      }
    }
  }
  slot.offsets.push_back(static_cast<uint32_t>(slot.index.size()));
  return slot;
}

// One slot of positions in each table, `s0` and `s1`, aligned: none to four an entry.
void AddSequence(const WorldOptions& options, uint64_t key, World* world) {
  std::vector<uint32_t> offsets = {0};
  for (uint32_t e = 0; e < (options.requests ? world->batch.requests : world->batch.rows); ++e) {
    offsets.push_back(offsets.back() + static_cast<uint32_t>(RandomBelow(key, e, 5)));
  }
  for (int t = 0; t < kTables; ++t) {
    SlotSpec spec = world->spec.slots(t * kSlots);
    spec.set_name(absl::StrCat("s", t));
    spec.set_slot(kSlots);
    spec.set_sequence(0);
    *world->spec.add_slots() = spec;
    Slot& slot = world->batch.tables[t].slots.emplace_back();
    slot.axis = Axis::kPosition;
    slot.owner = options.requests ? Axis::kRequest : Axis::kRow;
    slot.offsets = offsets;
    for (uint32_t i = 0; i < offsets.back(); ++i) {
      slot.index.push_back(static_cast<uint32_t>(RandomBelow(key + 1 + t, i, options.ids)));
    }
  }
}

}  // namespace

ModelOptions ParseModel(const std::string& model) {
  ModelOptions options;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(model, &options)) << model;
  return options;
}

void ParseSpec(const std::string& text, GraphSpec* spec) {
  const std::vector<std::string> parts = absl::StrSplit(text, '|');
  *spec->mutable_model() = ParseModel(parts[0]);
  for (size_t i = 1; i < parts.size(); ++i) {
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(parts[i], spec->add_tasks())) << text;
  }
  if (parts.size() == 1) return;
  spec->add_labels("y0");
  spec->add_labels("y1");
}

void LinkOccurrences(Batch* batch) {
  for (TableIds& table : batch->tables) {
    std::vector<std::vector<Occurrence>> by_id(table.ids.size());
    for (uint32_t s = 0; s < table.slots.size(); ++s) {
      const Slot& slot = table.slots[s];
      for (uint32_t e = 0; e + 1 < slot.offsets.size(); ++e) {
        for (uint32_t v = slot.offsets[e]; v < slot.offsets[e + 1]; ++v) {
          const uint32_t entry = slot.axis == Axis::kPosition ? v : e;
          by_id[slot.index[v]].push_back({s, entry, slot.weights.empty() ? 1 : slot.weights[v]});
        }
      }
    }
    table.occurrences.Start(table.slots.size());
    table.occurrence_offsets.assign(1, 0);
    for (const auto& list : by_id) {
      for (const Occurrence& o : list) table.occurrences.Add(o);
      table.occurrence_offsets.push_back(static_cast<uint32_t>(table.occurrences.size()));
    }
  }
}

World MakeWorld(const std::string& model, const WorldOptions& options) {
  World world;
  ParseSpec(model, &world.spec);
  world.spec.set_seed(options.seed);
  AddSlotSpecs(options, &world.spec);
  for (int i = 0; i < options.raws; ++i) world.spec.add_raws(absl::StrCat("r", i));

  const uint64_t key = Mix64(options.seed);
  Batch& batch = world.batch;
  batch.rows = options.rows;
  batch.requests = options.rows;
  for (uint32_t i = 0, request = 0; options.requests && i < batch.rows; ++i) {
    // Request 1 has no rows.
    if (i > 0) request += request == 0 ? 2 : RandomBelow(key, i, 2);
    batch.request_of_row.push_back(request);
    batch.requests = request + 1;
  }
  for (uint32_t i = 0; i < batch.rows; ++i) {
    batch.labels.push_back(static_cast<float>(RandomBelow(key + 1, i, 2)));
    if (world.spec.labels_size() == 2) {
      batch.labels.push_back(static_cast<float>(RandomBelow(key + 3, i, 2)));
      batch.weights.push_back(static_cast<float>(0.5 + RandomUniform(key + 4, i)));
      batch.groups.push_back(i % 3);
    }
    for (int f = 0; f < options.raws; ++f) {
      batch.dense.push_back(static_cast<float>(RandomNormal(key + 2, i * options.raws + f)));
    }
  }
  for (int t = 0; t < kTables; ++t) {
    TableIds& table = batch.tables.emplace_back();
    for (int u = 0; u < options.ids; ++u) table.ids.push_back(u);
    for (int s = 0; s < kSlots; ++s) {
      const bool by_request = t == 1 && options.requests;
      table.slots.push_back(MakeSlot(key + 10 + t * kSlots + s, t, s,
                                     by_request ? batch.requests : batch.rows, options.ids));
      table.slots.back().axis = by_request ? Axis::kRequest : Axis::kRow;
    }
    std::vector<Real>& rows = world.rows.emplace_back();
    for (int i = 0; i < options.ids * world.spec.table_width(t); ++i) {
      rows.push_back(static_cast<Real>(0.5 * RandomNormal(key + 20 + t, i)));
    }
  }
  if (NeedsOf(world.spec.model()).sequences) AddSequence(options, key + 30, &world);
  LinkOccurrences(&batch);
  return world;
}

Batch SubBatch(const Batch& batch, uint32_t first, uint32_t count) {
  Batch part;
  part.rows = count;
  part.requests = batch.request_of_row.empty() ? count : batch.requests;
  auto slice = [&](const auto& from, size_t width) {
    auto begin = from.begin() + first * width;
    return std::decay_t<decltype(from)>(begin, begin + count * width);
  };
  if (!batch.request_of_row.empty()) part.request_of_row = slice(batch.request_of_row, 1);
  part.labels = slice(batch.labels, batch.labels.size() / batch.rows);
  part.weights = slice(batch.weights, batch.weights.size() / batch.rows);
  part.groups = slice(batch.groups, batch.groups.size() / batch.rows);
  part.dense = slice(batch.dense, batch.dense.size() / batch.rows);
  for (const TableIds& table : batch.tables) {
    TableIds& copy = part.tables.emplace_back();
    copy.ids = table.ids;
    for (const Slot& slot : table.slots) {
      Slot& to = copy.slots.emplace_back(slot);
      if (slot.entries() == Axis::kRequest && !batch.request_of_row.empty()) continue;
      // Offsets may start anywhere: values stay where they are.
      to.offsets.assign(slot.offsets.begin() + first, slot.offsets.begin() + first + count + 1);
    }
  }
  return part;
}

std::unique_ptr<Network> MakeNetwork(const GraphSpec& spec, const NetworkOptions& options) {
  auto network = Network::Create(spec, options);
  EXPECT_TRUE(network.ok()) << network.status();
  return network.ok() ? *std::move(network) : nullptr;
}

std::vector<Real> RandomParams(const Network& network, uint64_t seed) {
  std::vector<Real> params(network.param_floats());
  for (const ParamSpec& spec : network.params()) {
    for (int64_t i = 0; i < spec.size(); ++i) {
      const double normal = RandomNormal(Mix64(seed), spec.offset + i);
      const bool positive = spec.name.ends_with("running_var") || spec.name.ends_with(".scale");
      params[spec.offset + i] = static_cast<Real>(positive ? 0.5 + normal * normal : 0.4 * normal);
    }
  }
  return params;
}

absl::StatusOr<TrainResult> RunTrain(const Network& network, const World& world,
                                     const std::vector<Real>& params, uint64_t step_seed,
                                     ThreadPool* pool, Workspace* workspace) {
  TrainResult result;
  result.scores.resize(world.batch.rows * network.outputs().size());
  result.param_grads.assign(params.size(), -77);  // Every number must be written.
  std::vector<std::span<const Real>> rows(world.rows.begin(), world.rows.end());
  std::vector<std::span<Real>> grads;
  for (const auto& table : world.rows) {
    result.row_grads.push_back(std::vector<Real>(table.size(), -77));
  }
  for (auto& table : result.row_grads) grads.push_back(table);
  std::unique_ptr<Workspace> own = network.NewWorkspace();
  auto loss = network.Train(world.batch, rows, params, step_seed, pool,
                            workspace == nullptr ? own.get() : workspace, result.scores, grads,
                            result.param_grads);
  if (!loss.ok()) return loss.status();
  result.loss = *loss;
  return result;
}

std::vector<Real> RunScore(const Network& network, const Batch& batch,
                           const std::vector<std::vector<Real>>& rows,
                           const std::vector<Real>& params, ThreadPool* pool) {
  std::vector<Real> scores(batch.rows * network.outputs().size());
  std::vector<std::span<const Real>> spans(rows.begin(), rows.end());
  std::unique_ptr<Workspace> workspace = network.NewWorkspace();
  EXPECT_TRUE(network.Score(batch, spans, params, pool, workspace.get(), scores).ok());
  return scores;
}

}  // namespace starling
