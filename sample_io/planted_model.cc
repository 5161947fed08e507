#include "sample_io/planted_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/container/flat_hash_set.h"
#include "base/random.h"

namespace starling {
namespace {

constexpr double kClickShare = 0.22;
constexpr int64_t kBiasRows = 20'000;  // Rows that the bias is fitted on.
constexpr double kEffect = 0.29;       // Deviation of what one field's ids add to the logit,
constexpr double kCross = 0.20;        // and of what one pair of fields adds.

// Streams of randomness: each value has a key of its own.
enum Stream : uint64_t {
  kRank = 100,
  kIdNull = 200,
  kNumber = 300,
  kNumberNull = 400,
  kClick = 500,
  kFieldSetup = 600,
  kEffects = 700,
  kLatents = 800
};
uint64_t Key(uint64_t seed, uint64_t stream, int i) { return Mix64(Mix64(seed) + stream + i); }

// Pairs of fields (from 0) whose product matters: few values each, never null.
using Pairs = std::array<std::array<int, 2>, 4>;
constexpr Pairs kPairs = {{{8, 16}, {16, 22}, {13, 8}, {22, 13}}};
// By Criteo's laws those are nearly constant; of these, some thirty ids are most of the rows.
constexpr Pairs kCriteoPairs = {{{0, 18}, {7, 1}, {4, 0}, {18, 4}}};

// log(1 + x) of a number is normal with this mean and deviation 1, cut off at 0.
constexpr double kLogMean = 2.0;

// What the number in column i adds to the logit; u is its log, standardised.
double Curve(int i, double u) {
  switch (i) {
    case 1:
      return 0.22 * (u * u - 1);
    case 2:
    case 8:
      return 0.30 * u;
    case 3:
    case 12:
      return -0.30 * u;
    case 4:
      return 0.30 * std::sin(1.5 * u);
    case 7:
      return -0.17 * (u * u - 1);
    case 10:
      return 0.25 * (std::abs(u) - 0.8);
    default:
      return 0;
  }
}

// Shifts and scales `values` to mean 0 and deviation 1 under `weights`, whose
// sum is at most 1; the rest of the weight is on values of 0. So a field's part
// in the truth is equally large for every seed, and a product of two fields
// has no first-order part that a linear model could take.
void Standardise(const std::vector<double>& weights, double* values, int stride) {
  double mass = 0, mean = 0, square = 0;
  for (size_t r = 0; r < weights.size(); ++r) {
    mass += weights[r];
    mean += weights[r] * values[r * stride];
  }
  for (size_t r = 0; r < weights.size(); ++r) {
    values[r * stride] -= mean / mass;
    square += weights[r] * values[r * stride] * values[r * stride];
  }
  for (size_t r = 0; r < weights.size(); ++r) values[r * stride] /= std::sqrt(square);
}

}  // namespace

const std::array<int64_t, PlantedModel::kIds> PlantedModel::kCardinalities = {
    1460, 583,   10131227, 2202608, 305,  24,   12517, 633,     3,  93145, 5683,   8351593, 3194,
    27,   14992, 5461306,  10,      5652, 2173, 4,     7046547, 18, 15,    286181, 105,     142572};
const std::array<double, PlantedModel::kIds> PlantedModel::kIdMissing = {
    0, 0, .035, .035, 0, .12, 0,   0,    0,   0, 0,    .035, 0,
    0, 0, .035, 0,    0, .44, .44, .035, .76, 0, .035, .44,  .44};
const std::array<double, PlantedModel::kNumbers> PlantedModel::kNumberMissing = {
    .45, 0, .22, .22, .026, .22, .043, .0005, .043, .45, .043, .765, .22};
PlantedModel::Laws PlantedModel::OwnLaws() {
  Laws laws;
  for (int f = 0; f < kIds; ++f) {
    const int64_t n = kCardinalities[f];
    laws[f].exponent = n <= 1000 ? 2.5 : n <= 20'000 ? 1.3 : 1.08;
  }
  return laws;
}

PlantedModel::PlantedModel(uint64_t seed, const std::optional<Laws>& laws)
    : seed_(seed), criteo_(laws.has_value()), fields_(kIds) {
  for (int f = 0; f < kIds; ++f) {
    Field& field = fields_[f];
    const uint64_t key = Key(seed, kFieldSetup, f);
    const int64_t n = kCardinalities[f];
    field.exponent = criteo_ ? (*laws)[f].exponent : 1.22 + 0.08 * RandomUniform(key, 0);
    field.tail = std::pow(static_cast<double>(n + 1), 1 - field.exponent);
    field.shift = static_cast<int64_t>(RandomBelow(key, 1, n));
    field.step = 1 + static_cast<int64_t>(RandomBelow(key, 2, n));
    while (std::gcd(field.step, n) != 1) ++field.step;
    PlantTruth(f, &field);
  }
  FindBias();
}

void PlantedModel::PlantTruth(int f, Field* field) const {
  for (int r = 0; r < kHead; ++r) field->effect[r] = RandomNormal(Key(seed_, kEffects, f), r);
  for (int r = 0; r < kCrossHead * kLatent; ++r) {
    field->latent[r / kLatent][r % kLatent] = RandomNormal(Key(seed_, kLatents, f), r);
  }
  std::vector<double> weights;  // Share of each rank.
  for (int64_t r = 1; r <= std::min<int64_t>(kHead, kCardinalities[f]); ++r) {
    weights.push_back((std::pow(r, 1 - field->exponent) - std::pow(r + 1, 1 - field->exponent)) /
                      (1 - field->tail));
  }
  Standardise(weights, field->effect.data(), 1);
  weights.resize(std::min<size_t>(weights.size(), kCrossHead));
  for (int k = 0; k < kLatent; ++k) Standardise(weights, &field->latent[0][k], kLatent);
}

int64_t PlantedModel::DrawRank(int f, int64_t row) const {
  if (!criteo_ && kIdMissing[f] > 0 && RandomUniform(Key(seed_, kIdNull, f), row) < kIdMissing[f])
    return -1;
  const Field& field = fields_[f];
  // Zipf by inversion of the continuous law, whose steps are the ranks.
  double u = RandomUniform(Key(seed_, kRank, f), row);
  double x = std::pow(1 - u * (1 - field.tail), 1 / (1 - field.exponent));
  return std::min(static_cast<int64_t>(x) - 1, kCardinalities[f] - 1);
}

double PlantedModel::Crosses(const std::array<int64_t, kIds>& ranks) const {
  double sum = 0;
  for (const auto& [f, g] : criteo_ ? kCriteoPairs : kPairs) {
    if (ranks[f] < 0 || ranks[f] >= kCrossHead || ranks[g] < 0 || ranks[g] >= kCrossHead) continue;
    for (int k = 0; k < kLatent; ++k) {
      sum += fields_[f].latent[ranks[f]][k] * fields_[g].latent[ranks[g]][k];
    }
  }
  return kCross * sum / std::sqrt(static_cast<double>(kLatent));
}

double PlantedModel::Logit(const std::array<int64_t, kIds>& ranks, const Row& row) const {
  double logit = bias_ + Crosses(ranks);
  for (int f = 0; f < kIds; ++f) {
    if (ranks[f] >= 0 && ranks[f] < kHead) logit += kEffect * fields_[f].effect[ranks[f]];
  }
  for (int i = 0; i < kNumbers; ++i) {
    logit += Curve(i, std::log1p(row.number_null[i] ? 0 : row.numbers[i]) - kLogMean);
  }
  return logit;
}

void PlantedModel::Fill(int64_t row, int64_t user, double shift, Row* out) const {
  std::array<int64_t, kIds> ranks;
  for (int f = 0; f < kIds; ++f) {
    ranks[f] = DrawRank(f, f < kUserIds ? user : row);
    const __int128 id = static_cast<__int128>(ranks[f]) * fields_[f].step + fields_[f].shift;
    out->ids[f] = ranks[f] < 0 ? -1 : static_cast<int64_t>(id % kCardinalities[f]);
  }
  for (int i = 0; i < kNumbers; ++i) {
    const int64_t of = i < kUserNumbers ? user : row;
    double log = std::max(0.0, kLogMean + RandomNormal(Key(seed_, kNumber, i), of));
    out->numbers[i] = std::floor(std::expm1(log));
    const bool missing = RandomUniform(Key(seed_, kNumberNull, i), of) < kNumberMissing[i];
    out->number_null[i] = missing && !criteo_;
    if (missing && criteo_) out->numbers[i] = 0;
  }
  out->probability = 1 / (1 + std::exp(-Logit(ranks, *out) - shift));
  out->click = RandomUniform(Key(seed_, kClick, 0), row) < out->probability;
}

std::array<double, PlantedModel::kIds> PlantedModel::UniqueShares(int batches) const {
  std::array<double, kIds> shares = {};
  Row row;
  for (int64_t b = 0; b < batches; ++b) {
    std::array<absl::flat_hash_set<int64_t>, kIds> seen;
    for (int64_t r = b * kLawBatch; r < (b + 1) * kLawBatch; ++r) {
      Fill(r, &row);
      for (int f = 0; f < kIds; ++f) seen[f].insert(row.ids[f]);
    }
    for (int f = 0; f < kIds; ++f) {
      shares[f] += static_cast<double>(seen[f].size()) / kLawBatch / batches;
    }
  }
  return shares;
}

// Bisects for the bias at which the share of clicks is the wished one.
void PlantedModel::FindBias() {
  std::vector<double> logits(kBiasRows);
  Row row;
  for (int64_t r = 0; r < kBiasRows; ++r) {
    Fill(-1 - r, &row);  // Rows that no data set holds.
    logits[r] = std::log(row.probability / (1 - row.probability));
  }
  double low = -10, high = 10;
  for (int i = 0; i < 40; ++i) {
    double middle = (low + high) / 2, clicks = 0;
    for (double logit : logits) clicks += 1 / (1 + std::exp(-logit - middle));
    (clicks < kClickShare * kBiasRows ? low : high) = middle;
  }
  bias_ = (low + high) / 2;
}

}  // namespace starling
