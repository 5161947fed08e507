// The inner loops of losses, beside kernels.h and by its rules. Losses and slopes
// are computed in double; what each row adds to the loss is left by row, and
// add_sum joins these in their order.
#pragma once

#include <cstdint>

#include "dense_net/real.h"

namespace starling {

// What rows one after the other are to learn, and what they count for.
struct LossRows {
  const float* labels;   // Row i's is labels[i * stride].
  const float* given;    // Likewise; only rows count where it is above 0.5. Null: all.
  const float* weights;  // Row i's is weights[i]. Null: all 1.
  int stride;
  double weight;  // Times the row's.
};

// DIEN's auxiliary loss: the state at `state` is to point to the event after it
// and away from the event at `other` (-1: none).
struct EventPair {
  int64_t state, other;
};

// By row of the batch, what a softmax over its items takes off a score.
struct SoftmaxItems {
  const Real* log_count;  // For the users of other rows; infinite: the row's item is no candidate.
  const Real* own_log_count;  // For the row's own user.
  const Real* item;           // Its number: rows of the same are no candidates. Null: they are.
};

struct LossKernels {
  // *sum += x (m), in order.
  void (*add_sum)(int m, const double* x, double* sum);
  // score (m) = sigmoid(z).
  void (*logistic)(int m, const Real* z, Real* score);

  // Of z (m): the loss of each row, and `out`, the gradient of z, in the mean over `rows_all` rows.
  // Log loss; positives count 1 + extra times.
  void (*log_loss)(int m, const LossRows& rows, double extra, const Real* z, double* loss);
  void (*log_loss_backward)(int m, const LossRows& rows, double extra, Real rows_all,
                            const Real* score, Real* out, bool add);
  void (*focal_loss)(int m, const LossRows& rows, double gamma, double alpha, const Real* z,
                     double* loss);
  void (*focal_loss_backward)(int m, const LossRows& rows, double gamma, double alpha,
                              Real rows_all, const Real* z, Real* out, bool add);
  void (*squared_loss)(int m, const LossRows& rows, const Real* z, double* loss);
  void (*squared_loss_backward)(int m, const LossRows& rows, Real rows_all, const Real* z,
                                Real* out, bool add);

  // The log loss of p = sigmoid(a) sigmoid(b): p and sigmoid(b); losses; gradients (null: not
  // wanted).
  void (*product_score)(int m, const Real* a, const Real* b, Real* p, Real* second);
  void (*product_loss)(int m, const LossRows& rows, const Real* a, const Real* b, double* loss);
  void (*product_loss_backward)(int m, const LossRows& rows, int64_t rows_all, const Real* a,
                                const Real* b, Real* da, bool add_a, Real* db, bool add_b);

  // RankNet. `order` has the rows of group g at [offsets[g], offsets[g + 1]). Fills each
  // group's loss and number of pairs; grads, by row and before the mean over pairs, are added to.
  void (*pairwise)(int groups, const uint32_t* offsets, const uint32_t* order, const LossRows& rows,
                   const Real* logits, Real* grads, double* loss, int64_t* pairs);

  // Softmax over the batch, n items: scores (n) of the user of row `own` become scale * score
  // less what `items` says, and *log_sum the log of the sum of their exponentials.
  void (*softmax_sum)(int n, int own, Real scale, const SoftmaxItems& items, Real* scores,
                      Real* log_sum);
  // A row's loss, given its log_sum, its own score and the log Q of its item; it counts as much
  // as its label.
  void (*softmax_loss)(int m, const LossRows& rows, const Real* log_sum, const Real* own,
                       const Real* log_q, double* loss);
  // g (n), scores of row `own` as a user with all items, or as an item with all users, becomes
  // the loss's slopes along them. `rows` are all n.
  void (*softmax_slopes)(int n, int own, bool own_is_user, const LossRows& rows, Real scale,
                         const SoftmaxItems& items, const Real* log_sum, Real* g);

  // Of pairs of states and events, both (positions, d): the loss of each, at its state's position
  // of `out` too.
  void (*event_loss)(int pairs, const EventPair* at, int d, const Real* states, const Real* events,
                     Real* out, double* loss);
  // Adds `factor` times the gradients of states and events (null: not wanted). scratch: (pairs, 2).
  void (*event_loss_backward)(int pairs, const EventPair* at, int d, Real factor,
                              const Real* states, const Real* events, Real* scratch, Real* dstates,
                              Real* devents);
};

}  // namespace starling
