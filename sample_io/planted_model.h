// PlantedModel: a made-up world of clicks whose truth is known. Rows look like
// Criteo's (26 Zipf id fields of its cardinalities, 13 numbers, nulls in like
// shares); the label is drawn from a probability that the model itself knows,
// so what a trained model reaches can be held against the best possible.
//
// With Laws, ids repeat as often, field by field, as in a log that they were fitted
// to. There a missing value is a value, as the published
// cardinalities count it: an id of its own, or the number 0; nothing is null.
//
// The logit is a bias, effects of the most frequent ids of every field,
// products of latent vectors for some pairs of fields with few values, and
// curves of the numbers. Rare ids have no effect, and a null number counts as
// 0, so about a million rows suffice to learn it. A model without crosses and
// curves cannot: that part of the truth is kept from it on purpose.
//
// Every value is a function of (seed, row), whichever thread asks. A const
// object; thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace starling {

class PlantedModel {
 public:
  static constexpr int kIds = 26;
  static constexpr int kNumbers = 13;
  static const std::array<int64_t, kIds> kCardinalities;
  static const std::array<double, kIds> kIdMissing;  // Share of nulls, by field.
  static const std::array<double, kNumbers> kNumberMissing;

  // How often a field's ids repeat: the exponent of Zipf's law, and the share of unique
  // ids in kLawBatch rows of the log that it was fitted to; 0: to none.
  struct Law {
    double unique_share = 0, exponent = 0;
  };
  using Laws = std::array<Law, kIds>;
  static constexpr int kLawBatch = 4096;
  static Laws OwnLaws();  // Few ids repeat often, many seldom.

  // With laws nothing is null; without, exponents are near 1.26 in all fields.
  explicit PlantedModel(uint64_t seed, const std::optional<Laws>& laws = std::nullopt);

  struct Row {
    std::array<int64_t, kIds> ids;  // -1: null.
    std::array<double, kNumbers> numbers;
    std::array<bool, kNumbers> number_null;
    double probability;
    bool click;
  };
  void Fill(int64_t row, Row* out) const { Fill(row, row, 0, out); }
  // A row whose user is that of row `user`: the first kUserIds ids and the
  // first kUserNumbers numbers are the latter's. `shift` is added to its logit.
  static constexpr int kUserIds = 23, kUserNumbers = 12;  // 35 of 39.
  void Fill(int64_t row, int64_t user, double shift, Row* out) const;

  // By field: how many of kLawBatch ids are unique, as a share, on average over the
  // first `batches` batches of rows.
  std::array<double, kIds> UniqueShares(int batches) const;

 private:
  static constexpr int kHead = 40;       // Most frequent ids of a field that have an effect,
  static constexpr int kCrossHead = 30;  // and a latent vector,
  static constexpr int kLatent = 2;      // of this many dims.

  struct Field {
    double exponent = 0;  // Zipf's.
    double tail = 0;      // P(rank > r) falls as r^(1 - exponent) down to this at the last rank.
    int64_t step = 0, shift = 0;  // id = (rank * step + shift) mod cardinality, one to one.
    std::array<double, kHead> effect;
    std::array<std::array<double, kLatent>, kCrossHead> latent;
  };

  void PlantTruth(int f, Field* field) const;
  int64_t DrawRank(int field, int64_t row) const;  // From 0, the most frequent; -1: null.
  double Crosses(const std::array<int64_t, kIds>& ranks) const;
  double Logit(const std::array<int64_t, kIds>& ranks, const Row& row) const;
  void FindBias();

  const uint64_t seed_;
  const bool criteo_;
  std::vector<Field> fields_;
  double bias_ = 0;
};

}  // namespace starling
