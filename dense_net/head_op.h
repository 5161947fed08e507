// What fused ops share: all but their own passes over rows is the head's, the one
// part of them that has parameters and products.
#pragma once

#include "dense_net/graph.h"

namespace starling {

class HeadOp : public Op {
 public:
  using Op::Op;

  double ForwardFlops() const override { return head().ForwardFlops(); }
  double BackwardFlops(bool input_grad) const override { return head().BackwardFlops(input_grad); }
  int64_t StateFloats(const Step& step) const override { return head().StateFloats(step); }
  int64_t ScratchFloats(int tile) const override { return head().ScratchFloats(tile); }
  void Prepare(const Step& step, Real* state) const override { head().Prepare(step, state); }
  Shares shares() const override { return head().shares(); }
  bool takes_requests_apart() const override { return head().takes_requests_apart(); }
  int Parts(const Step& step) const override { return head().Parts(step); }
  void BeforeTiles(const Step& step, int part, Real* state) const override {
    head().BeforeTiles(step, part, state);
  }
  void AfterTiles(const Step& step, int part, Real* state, Real* param_grads) const override {
    head().AfterTiles(step, part, state, param_grads);
  }

 protected:
  virtual const Op& head() const = 0;
};

}  // namespace starling
