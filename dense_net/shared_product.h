// x W in training, where x begins with the embedding and some of its slots are
// shared (shared_slots.h): those columns' products are computed once a distinct
// vector v, and a row adds up the products of its vectors. The gradients of W and
// v follow from the output's gradients summed by vector, once all tiles are done.
//
// The same numbers as the plain product but for the order of summation, which
// follows from the batch alone. Scoring does not come here: its bits are those of
// one chain (gemm.h), whatever the batch.
#pragma once

#include <cstdint>

#include "dense_net/graph.h"
#include "dense_net/shared_slots.h"

namespace starling {

class SharedProduct {
 public:
  // W is (k, n) at `weight` of the parameters; the first `embedding` columns of x are the
  // embedding.
  SharedProduct(int embedding, int k, int n, int64_t weight)
      : embedding_(embedding), k_(k), n_(n), weight_(weight) {}

  bool possible() const { return embedding_ > 0 && n_ >= kWidthMin; }
  bool Applies(const Step& step) const { return step.shared != nullptr && possible(); }

  // All below: only if it applies. As the methods of Op.
  int64_t StateFloats(const Step& step) const;
  int64_t ScratchFloats(int tile) const;
  void Prepare(const Step& step, Real* state) const;
  int Parts(const Step& step) const;
  void BeforeTiles(const Step& step, int part, Real* state) const;
  void Forward(const OpTile& tile, const Real* bias) const;
  void Backward(const OpTile& tile) const;
  void AfterTiles(const Step& step, int part, Real* state, Real* param_grads) const;

 private:
  static constexpr int kWidthMin = 16;  // Less is not worth the passes.
  struct Places;
  Places Place(const Step& step, Real* state) const;
  int RestWidth(const Step& step) const;
  template <typename Fn>
  void ForRest(const Step& step, const Fn& fn) const;
  template <typename Fn>
  void ForSlots(const Step& step, int part, const Fn& fn) const;

  const int embedding_, k_, n_;
  const int64_t weight_;
};

}  // namespace starling
