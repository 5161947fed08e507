#include "sample_io/drift.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

namespace starling {
namespace {

constexpr double kShareMin = 1e-4;
constexpr size_t kQuantileBins = 10;
constexpr size_t kIdBinsMax = 20;

// Counts of `sorted` in the bins (-inf, cuts[0]], (cuts[0], cuts[1]], …, (last, inf).
std::vector<double> CountInBins(const std::vector<double>& sorted,
                                const std::vector<double>& cuts) {
  std::vector<double> counts;
  auto begin = sorted.begin();
  for (double cut : cuts) {
    auto end = std::upper_bound(begin, sorted.end(), cut);
    counts.push_back(static_cast<double>(end - begin));
    begin = end;
  }
  counts.push_back(static_cast<double>(sorted.end() - begin));
  return counts;
}

double QuantilePsi(const ColumnStats& a, const ColumnStats& b) {
  const std::vector<double> from = a.sample.Sorted(), to = b.sample.Sorted();
  // The value just below the least: a bin of its own for all that lies there.
  std::vector<double> cuts = {std::nextafter(from.front(), -HUGE_VAL)};
  for (size_t i = 1; i <= kQuantileBins; ++i) {
    const double cut = from[(from.size() * i + kQuantileBins - 1) / kQuantileBins - 1];
    if (cut > cuts.back()) cuts.push_back(cut);
  }
  return PopulationStability(CountInBins(from, cuts), CountInBins(to, cuts));
}

// The reference's ids whose counts are known to a tenth, and the rest. None if
// no id is that frequent.
std::optional<double> IdPsi(const ColumnStats& a, const ColumnStats& b) {
  std::vector<double> from, to;
  double rest_from = static_cast<double>(a.values), rest_to = static_cast<double>(b.values);
  for (const TopValues::Entry& entry : a.top.Top(kIdBinsMax)) {
    if (a.top.error() * 10 > entry.count) break;
    from.push_back(static_cast<double>(entry.count));
    to.push_back(static_cast<double>(b.top.Count(entry.key)));
    rest_from -= from.back();
    rest_to -= to.back();
  }
  if (from.empty()) return std::nullopt;
  from.push_back(rest_from);
  to.push_back(rest_to);
  return PopulationStability(from, to);
}

void CompareValues(const ColumnStats& a, const ColumnStats& b, ColumnDrift* drift) {
  if (a.values == 0 || b.values == 0) return;
  if (a.is_number()) {
    drift->psi = QuantilePsi(a, b);
    drift->bins = "quantiles";
  }
  if (a.kind == ColumnType::kDouble) return;
  const std::optional<double> psi = IdPsi(a, b);
  if (psi.has_value() && (drift->bins.empty() || *psi > drift->psi)) {
    drift->psi = *psi;
    drift->bins = "ids";
  }
}

void CountUnseen(const ColumnStats& a, const ColumnStats& b, ColumnDrift* drift) {
  HyperLogLog both = a.distinct;
  both.Merge(b.distinct);
  const double more = both.Estimate() - a.distinct.Estimate();
  if (more > 3 * HyperLogLog::kStandardError * both.Estimate()) {
    drift->new_distinct = std::llround(more);
  }
  if (b.values == 0 || a.kind == ColumnType::kDouble || !a.top.exact()) return;
  int64_t seen = 0, unseen = 0;
  for (const TopValues::Entry& entry : b.top.Top(b.top.kept())) {
    (a.top.Count(entry.key) > 0 ? seen : unseen) += entry.count;
  }
  const auto total = static_cast<double>(b.values);
  drift->unseen_share_min = static_cast<double>(unseen) / total;
  drift->unseen_share_max = 1 - static_cast<double>(seen) / total;
  if (b.top.exact()) drift->unseen_share_max = drift->unseen_share_min;
}

ColumnDrift Compare(const ColumnStats& a, const ColumnStats& b) {
  ColumnDrift drift;
  drift.name = a.name;
  drift.null_share_difference = b.null_share() - a.null_share();
  auto nulls = [](const ColumnStats& of) {
    return std::vector<double>{static_cast<double>(of.nulls),
                               static_cast<double>(of.rows - of.nulls)};
  };
  drift.null_psi = PopulationStability(nulls(a), nulls(b));
  CompareValues(a, b, &drift);
  CountUnseen(a, b, &drift);
  return drift;
}

// A column without any value is of any type.
bool Comparable(const ColumnStats& a, const ColumnStats& b) {
  return a.values == 0 || b.values == 0 || (a.kind == b.kind && a.is_list == b.is_list);
}

}  // namespace

double PopulationStability(const std::vector<double>& a, const std::vector<double>& b) {
  const double sum_a = std::accumulate(a.begin(), a.end(), 0.0);
  const double sum_b = std::accumulate(b.begin(), b.end(), 0.0);
  double psi = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double from = std::max(kShareMin, a[i] / sum_a), to = std::max(kShareMin, b[i] / sum_b);
    psi += (to - from) * std::log(to / from);
  }
  return psi;
}

DataDrift CompareStats(const DataStats& reference, const DataStats& other) {
  DataDrift out;
  for (const ColumnStats& a : reference.columns) {
    const ColumnStats* b = other.Find(a.name);
    if (b == nullptr) {
      out.not_compared.push_back(absl::StrCat(a.name, ": only in the reference"));
    } else if (!Comparable(a, *b)) {
      out.not_compared.push_back(
          absl::StrCat(a.name, ": ", a.type, " in the reference, ", b->type, " in the other"));
    } else {
      out.columns.push_back(Compare(a, *b));
    }
  }
  for (const ColumnStats& b : other.columns) {
    if (reference.Find(b.name) != nullptr) continue;
    out.not_compared.push_back(absl::StrCat(b.name, ": only in the other"));
  }
  std::sort(out.not_compared.begin(), out.not_compared.end());
  std::sort(out.columns.begin(), out.columns.end(), [](const ColumnDrift& x, const ColumnDrift& y) {
    return std::make_pair(-x.drift(), std::cref(x.name)) <
           std::make_pair(-y.drift(), std::cref(y.name));
  });
  return out;
}

}  // namespace starling
