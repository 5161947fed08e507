// TableModel: what a table promises, without tiers, budgets, stripes or
// threads: a std::map of rows whose bodies RowLayout steps one at a time.
// For tests; a table of the same spec must equal it bit for bit.
#pragma once

#include <algorithm>
#include <map>
#include <span>
#include <vector>

#include "embedding_store/row_layout.h"
#include "embedding_store/row_slab.h"

namespace starling {

class TableModel {
 public:
  struct Row {
    int64_t event_time = 0;
    uint32_t frequency = 0;
    std::vector<char> body;
  };

  explicit TableModel(const TableSpec& spec)
      : layout_(*RowLayout::Create(spec)),
        seed_(TableSeed(spec)),
        ttl_(spec.options().evict().ttl()),
        sights_needed_(
            spec.options().admit().has_exact_count() ? spec.options().admit().exact_count() : 1) {}

  std::vector<float> Weights(uint64_t id) const {
    std::vector<float> weights(layout_.width(), 0.0f);
    auto it = rows.find(id);
    if (it != rows.end()) layout_.ReadWeights(it->second.body.data(), weights.data());
    return weights;
  }
  std::vector<float> Floats(const Row& row) const {
    std::vector<float> floats(layout_.floats());
    layout_.Unpack(row.body.data(), floats);
    return floats;
  }

  void Create(uint64_t id, uint32_t count, int64_t time) {
    auto it = rows.find(id);
    if (it == rows.end()) {
      uint64_t& sights = unadmitted[id];
      if ((sights += count) < sights_needed_) return;
      unadmitted.erase(id);
      it = rows.emplace(id, New(id)).first;
    } else if (Expired(it->second, time)) {
      it->second = New(id);
    }
    Row& row = it->second;
    row.frequency = std::min<uint64_t>(uint64_t{row.frequency} + count, RowHeader::kFrequencyMax);
    row.event_time = std::max(row.event_time, time);
  }
  void Apply(uint64_t id, std::span<const float> grad, float lr_scale) {
    auto it = rows.find(id);
    if (it == rows.end()) return;
    layout_.Step(lr_scale, seed_ ^ id, it->second.body.data(), grad.data());
  }
  void AddDelta(uint64_t id, std::span<const float> delta) {
    auto it = rows.find(id);
    if (it != rows.end()) layout_.AddDelta(seed_ ^ id, it->second.body.data(), delta);
  }
  // True if the sweeper may take the row.
  bool Due(uint64_t id) const {
    auto it = rows.find(id);
    return it != rows.end() && Expired(it->second, now);
  }

  std::map<uint64_t, Row> rows;
  std::map<uint64_t, uint64_t> unadmitted;  // Sights of ids that have no row.
  int64_t now = 0;                          // Latest event time of the last call that brought one.

 private:
  Row New(uint64_t id) const {
    Row row;
    row.body.resize(layout_.body_bytes());
    layout_.Init(seed_, id, 0, row.body.data());
    return row;
  }
  bool Expired(const Row& row, int64_t time) const {
    return ttl_ > 0 && time != 0 && row.event_time != 0 &&
           static_cast<double>(time - row.event_time) > ttl_;
  }

  RowLayout layout_;
  uint64_t seed_;
  double ttl_;
  uint64_t sights_needed_;
};

}  // namespace starling
