// The kernels of loss_kernels.h, written once for every device, by the rules of
// kernels_on.h. A NaN stays one: hence no fmax.
#pragma once

#include "dense_net/kernels_on.h"
#include "dense_net/loss_kernels.h"

namespace starling {
namespace STARLING_ISA {

STARLING_HOST_DEVICE inline double ExactSigmoid(double z) { return 1.0 / (1.0 + exp(-z)); }
STARLING_HOST_DEVICE inline double LogSigmoid(double z) {
  return (z < 0 ? z : 0) - log1p(exp(-fabs(z)));
}
STARLING_HOST_DEVICE inline double Softplus(double z) {
  return (z < 0 ? 0 : z) + log1p(exp(-fabs(z)));
}
STARLING_HOST_DEVICE inline float LabelOf(const LossRows& rows, int64_t i) {
  return rows.labels[i * rows.stride];
}
STARLING_HOST_DEVICE inline double WeightOf(const LossRows& rows, int64_t i) {
  if (rows.given != nullptr && !(rows.given[i * rows.stride] > 0.5f)) return 0;
  return rows.weights == nullptr ? rows.weight : rows.weight * rows.weights[i];
}

// -(1 - p)^gamma log p of p = sigmoid(z), and its slope; a negative is a positive of -z.
STARLING_HOST_DEVICE inline double FocalOfPositive(double gamma, double z) {
  return -pow(ExactSigmoid(-z), gamma) * LogSigmoid(z);
}
STARLING_HOST_DEVICE inline double FocalSlope(double gamma, double z) {
  const double rest = ExactSigmoid(-z);
  return pow(rest, gamma) * (gamma * ExactSigmoid(z) * LogSigmoid(z) - rest);
}
// 1 - sigmoid(a) sigmoid(b), without losing digits.
STARLING_HOST_DEVICE inline double OneLess(double a, double b) {
  return ExactSigmoid(-a) + ExactSigmoid(a) * ExactSigmoid(-b);
}
// What the score of row `item`'s item is lessened by for the user of row `user`.
STARLING_HOST_DEVICE inline Real LogCount(const SoftmaxItems& items, int64_t user, int64_t item) {
  if (user == item) return items.own_log_count[item];
  const bool own = items.item != nullptr && items.item[user] == items.item[item];
  return own ? static_cast<Real>(HUGE_VAL) : items.log_count[item];
}
STARLING_HOST_DEVICE inline Real PlainDot(int d, const Real* a, const Real* b) {
  Real dot = 0;
  for (int j = 0; j < d; ++j) dot += a[j] * b[j];
  return dot;
}

template <typename Run>
struct LossKernelsOn {
  static void AddSum(int m, const double* x, double* sum) {
    Run::Rows(1, [=] STARLING_HOST_DEVICE(int) {
      double total = 0;
      for (int i = 0; i < m; ++i) total += x[i];
      *sum += total;
    });
  }
  static void Logistic(int m, const Real* z, Real* score) {
    Run::Elements(m, [=] STARLING_HOST_DEVICE(int64_t i) {
      score[i] = static_cast<Real>(ExactSigmoid(z[i]));
    });
  }

  static void LogLoss(int m, const LossRows& rows, double extra, const Real* z, double* loss) {
    const LossRows r = rows;
    Run::Elements(m, [=] STARLING_HOST_DEVICE(int64_t i) {
      const double zi = z[i], y = LabelOf(r, i), tail = log1p(exp(-fabs(zi)));
      const double plain = (zi < 0 ? 0 : zi) - zi * y + tail;
      const double more = extra == 0 ? 0 : extra * y * ((zi < 0 ? -zi : 0) + tail);
      loss[i] = WeightOf(r, i) * (plain + more);
    });
  }
  static void LogLossBackward(int m, const LossRows& rows, double extra, Real rows_all,
                              const Real* score, Real* out, bool add) {
    const LossRows r = rows;
    Run::Elements(m, [=] STARLING_HOST_DEVICE(int64_t i) {
      const Real y = LabelOf(r, i), p = score[i];
      const Real slope = p - y + static_cast<Real>(extra) * y * (p - 1);
      Put(&out[i], slope * (static_cast<Real>(WeightOf(r, i)) / rows_all), add);
    });
  }
  static void FocalLoss(int m, const LossRows& rows, double gamma, double alpha, const Real* z,
                        double* loss) {
    const LossRows r = rows;
    Run::Elements(m, [=] STARLING_HOST_DEVICE(int64_t i) {
      const double zi = z[i], y = LabelOf(r, i);
      loss[i] = WeightOf(r, i) * (alpha * y * FocalOfPositive(gamma, zi) +
                                  (1 - alpha) * (1 - y) * FocalOfPositive(gamma, -zi));
    });
  }
  static void FocalLossBackward(int m, const LossRows& rows, double gamma, double alpha,
                                Real rows_all, const Real* z, Real* out, bool add) {
    const LossRows r = rows;
    Run::Elements(m, [=] STARLING_HOST_DEVICE(int64_t i) {
      const double zi = z[i], y = LabelOf(r, i);
      const Real slope = static_cast<Real>(alpha * y * FocalSlope(gamma, zi) -
                                           (1 - alpha) * (1 - y) * FocalSlope(gamma, -zi));
      Put(&out[i], slope * (static_cast<Real>(WeightOf(r, i)) / rows_all), add);
    });
  }
  static void SquaredLoss(int m, const LossRows& rows, const Real* z, double* loss) {
    const LossRows r = rows;
    Run::Elements(m, [=] STARLING_HOST_DEVICE(int64_t i) {
      const double away = double{z[i]} - LabelOf(r, i);
      loss[i] = WeightOf(r, i) * (away * away);
    });
  }
  static void SquaredLossBackward(int m, const LossRows& rows, Real rows_all, const Real* z,
                                  Real* out, bool add) {
    const LossRows r = rows;
    Run::Elements(m, [=] STARLING_HOST_DEVICE(int64_t i) {
      Put(&out[i], 2 * (z[i] - LabelOf(r, i)) * (static_cast<Real>(WeightOf(r, i)) / rows_all),
          add);
    });
  }

  static void ProductScore(int m, const Real* a, const Real* b, Real* p, Real* second) {
    Run::Elements(m, [=] STARLING_HOST_DEVICE(int64_t i) {
      const double given = ExactSigmoid(b[i]);
      p[i] = static_cast<Real>(ExactSigmoid(a[i]) * given);
      second[i] = static_cast<Real>(given);
    });
  }
  static void ProductLoss(int m, const LossRows& rows, const Real* a, const Real* b, double* loss) {
    const LossRows r = rows;
    Run::Elements(m, [=] STARLING_HOST_DEVICE(int64_t i) {
      const double y = LabelOf(r, i);
      loss[i] = -WeightOf(r, i) *
                (y * (LogSigmoid(a[i]) + LogSigmoid(b[i])) + (1 - y) * log(OneLess(a[i], b[i])));
    });
  }
  static void ProductLossBackward(int m, const LossRows& rows, int64_t rows_all, const Real* a,
                                  const Real* b, Real* da, bool add_a, Real* db, bool add_b) {
    const LossRows r = rows;
    Run::Elements(m, [=] STARLING_HOST_DEVICE(int64_t i) {
      const double p = ExactSigmoid(a[i]) * ExactSigmoid(b[i]);
      const double share = WeightOf(r, i) / static_cast<double>(rows_all);
      const double g = share * (p - LabelOf(r, i)) / OneLess(a[i], b[i]);
      const Real ga = static_cast<Real>(g * ExactSigmoid(-double{a[i]}));
      const Real gb = static_cast<Real>(g * ExactSigmoid(-double{b[i]}));
      if (da != nullptr) Put(&da[i], ga, add_a);
      if (db != nullptr) Put(&db[i], gb, add_b);
    });
  }

  static void Pairwise(int groups, const uint32_t* offsets, const uint32_t* order,
                       const LossRows& rows, const Real* logits, Real* grads, double* loss,
                       int64_t* pairs) {
    const LossRows r = rows;
    Run::Rows(groups, [=] STARLING_HOST_DEVICE(int group) {
      const uint32_t *begin = order + offsets[group], *end = order + offsets[group + 1];
      double total = 0;
      int64_t count = 0;
      for (const uint32_t* high = begin; high < end; ++high) {
        const double weight = WeightOf(r, *high);
        double slope = 0;
        for (const uint32_t* low = begin; weight != 0 && low < end; ++low) {
          if (!(LabelOf(r, *high) > LabelOf(r, *low))) continue;
          if (r.given != nullptr && WeightOf(r, *low) == 0) continue;
          const double z = double{logits[*high]} - logits[*low];
          const double g = weight / (1.0 + exp(z));
          total += weight * Softplus(-z);
          grads[*low] += static_cast<Real>(g);
          slope += g;
          ++count;
        }
        grads[*high] -= static_cast<Real>(slope);
      }
      loss[group] = total;
      pairs[group] = count;
    });
  }

  static void SoftmaxSum(int n, int own, Real scale, const SoftmaxItems& items, Real* scores,
                         Real* log_sum) {
    const SoftmaxItems all = items;
    Run::Rows(1, [=] STARLING_HOST_DEVICE(int) {
      double most = -HUGE_VAL, sum = 0;
      for (int j = 0; j < n; ++j) {
        scores[j] = scale * scores[j] - LogCount(all, own, j);
        if (!(scores[j] <= most)) most = scores[j];
      }
      for (int j = 0; j < n; ++j) sum += exp(scores[j] - most);
      *log_sum = static_cast<Real>(most + log(sum));
    });
  }
  static void SoftmaxLoss(int m, const LossRows& rows, const Real* log_sum, const Real* own,
                          const Real* log_q, double* loss) {
    const LossRows r = rows;
    Run::Elements(m, [=] STARLING_HOST_DEVICE(int64_t i) {
      loss[i] = WeightOf(r, i) * LabelOf(r, i) * (double{log_sum[i]} - (own[i] - log_q[i]));
    });
  }
  static void SoftmaxSlopes(int n, int own, bool own_is_user, const LossRows& rows, Real scale,
                            const SoftmaxItems& items, const Real* log_sum, Real* g) {
    const LossRows r = rows;
    const SoftmaxItems all = items;
    Run::Elements(n, [=] STARLING_HOST_DEVICE(int64_t other) {
      const int64_t user = own_is_user ? own : other, item = own_is_user ? other : own;
      const double share =
          exp(double{scale * g[other]} - LogCount(all, user, item) - log_sum[user]);
      const double slope = share - (user == item ? 1 : 0);
      g[other] = static_cast<Real>(WeightOf(r, user) * LabelOf(r, user) / n * slope * scale);
    });
  }

  static void EventLoss(int pairs, const EventPair* at, int d, const Real* states,
                        const Real* events, Real* out, double* loss) {
    Run::Rows(pairs, [=] STARLING_HOST_DEVICE(int i) {
      const auto [state, other] = at[i];
      const Real* s = states + state * d;
      double pair = Softplus(-double{PlainDot(d, s, events + (state + 1) * d)});
      if (other >= 0) pair += Softplus(PlainDot(d, s, events + other * d));
      out[state] = static_cast<Real>(pair);
      loss[i] = pair;
    });
  }
  static void EventLossBackward(int pairs, const EventPair* at, int d, Real factor,
                                const Real* states, const Real* events, Real* scratch,
                                Real* dstates, Real* devents) {
    Run::Rows(pairs, [=] STARLING_HOST_DEVICE(int i) {
      const auto [state, other] = at[i];
      const Real* s = states + state * d;
      const Real next = PlainDot(d, s, events + (state + 1) * d);
      scratch[2 * i] = (1 / (1 + Exp(-next)) - 1) * factor;
      const Real away = other < 0 ? 0 : PlainDot(d, s, events + other * d);
      scratch[2 * i + 1] = other < 0 ? 0 : factor / (1 + Exp(-away));
    });
    // Several pairs may hold one event: down a column they come in order.
    Run::Columns(pairs, d, [=] STARLING_HOST_DEVICE(int i, int j) {
      const auto [state, other] = at[i];
      const int64_t s = state * d + j, next = s + d, away = other * d + j;
      const Real to = scratch[2 * i], from = scratch[2 * i + 1];
      if (dstates != nullptr) dstates[s] += to * events[next];
      if (devents != nullptr) devents[next] += to * states[s];
      if (other < 0) return;
      if (dstates != nullptr) dstates[s] += from * events[away];
      if (devents != nullptr) devents[away] += from * states[s];
    });
  }

  static constexpr LossKernels kTable = {
      .add_sum = AddSum,
      .logistic = Logistic,
      .log_loss = LogLoss,
      .log_loss_backward = LogLossBackward,
      .focal_loss = FocalLoss,
      .focal_loss_backward = FocalLossBackward,
      .squared_loss = SquaredLoss,
      .squared_loss_backward = SquaredLossBackward,
      .product_score = ProductScore,
      .product_loss = ProductLoss,
      .product_loss_backward = ProductLossBackward,
      .pairwise = Pairwise,
      .softmax_sum = SoftmaxSum,
      .softmax_loss = SoftmaxLoss,
      .softmax_slopes = SoftmaxSlopes,
      .event_loss = EventLoss,
      .event_loss_backward = EventLossBackward,
  };
};

}  // namespace STARLING_ISA
}  // namespace starling
