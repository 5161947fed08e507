// What batch norm and Dice share: the moments of each column, the batch's while
// training and running ones when scoring.
#pragma once

#include <string>

#include "dense_net/graph.h"

namespace starling {

class NormalizingOp : public CoupledOp {
 public:
  struct Rule {
    double eps, momentum;
    int vectors;                        // Of the step, (width) each, at the head of the state.
    int parts;                          // Vectors a tile leaves there while training; 2 or more.
    int64_t running_mean, running_var;  // Offsets.
  };
  NormalizingOp(std::string name, Value x, const Rule& rule);

  bool trainable() const override { return true; }
  int64_t StateFloats(const Step& step) const override;
  void Prepare(const Step& step, Real* state) const override;
  void ReduceForward(const OpTile& tile) const override;
  void CombineForward(const Step& step, Real* state, Real* param_grads) const override;
  Real* JointParts(Real* state) const override { return Vector(state, rule_.vectors); }
  int64_t JointPartFloats() const override { return int64_t{rule_.parts} * width(); }

 protected:
  // Takes over the moments of column j.
  virtual void SetColumn(const Step& step, double mean, double inv_std, int j,
                         Real* state) const = 0;

  Real* Vector(Real* state, int which) const { return state + int64_t{which} * width(); }
  // By tile of the joint batch.
  Real* Part(Real* state, int tile) const { return JointParts(state) + tile * JointPartFloats(); }
  Real* PartOf(const OpTile& tile) const {
    return Part(tile.state, tile.step->first_tile() + tile.index);
  }
  // Column j of vector `part`, summed over all tiles.
  double SumParts(const Step& step, Real* state, int part, int j) const;
  // The rows, or positions, of the joint batch; 1 if there are none, for means over them.
  double Rows(const Step& step) const;
  const Rule& rule() const { return rule_; }

 private:
  const Rule rule_;
};

}  // namespace starling
