#include "dense_net/normalizing_op.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace starling {

NormalizingOp::NormalizingOp(std::string name, Value x, const Rule& rule)
    : CoupledOp(std::move(name), {x}, x.width), rule_(rule) {}

int64_t NormalizingOp::StateFloats(const Step& step) const {
  return (rule_.vectors + (step.training ? int64_t{rule_.parts} * step.share.joint->tiles : 0)) *
         width();
}

void NormalizingOp::Prepare(const Step& step, Real* state) const {
  if (step.training) return;
  for (int j = 0; j < width(); ++j) {
    const double variance = step.params[rule_.running_var + j];
    SetColumn(step, step.params[rule_.running_mean + j], 1 / std::sqrt(variance + rule_.eps), j,
              state);
  }
}

void NormalizingOp::ReduceForward(const OpTile& tile) const {
  if (tile.rows == 0) return;
  Real* part = PartOf(tile);
  tile.kernels().column_moments(tile.rows, width(), tile.in[0], part, part + width());
}

// Joins the tiles' moments by Chan's rule, in double.
void NormalizingOp::CombineForward(const Step& step, Real* state, Real* param_grads) const {
  const JointBatch& joint = *step.share.joint;
  for (int j = 0; j < width(); ++j) {
    double mean = 0, m2 = 0, count = 0;
    for (int t = 0; t < joint.tiles; ++t) {
      const double n =
          static_cast<double>(joint.Before(sequence(), t + 1) - joint.Before(sequence(), t));
      if (n == 0) continue;
      const Real* part = Part(state, t);
      const double delta = part[j] - mean;
      m2 += part[width() + j] + delta * delta * (count * n / (count + n));
      count += n;
      mean += delta * (n / count);
    }
    Real& to_mean = param_grads[rule_.running_mean + j];
    Real& to_var = param_grads[rule_.running_var + j];
    to_mean = to_var = 0;
    const double variance = count > 0 ? m2 / count : 1;  // 0: positions, of which there are none.
    SetColumn(step, mean, 1 / std::sqrt(variance + rule_.eps), j, state);
    if (count == 0 || !step.adds_joint()) continue;
    const double unbiased = m2 / std::max(count - 1, 1.0);
    const Real *old_mean = step.params + rule_.running_mean + j,
               *old_var = step.params + rule_.running_var + j;
    to_mean = static_cast<Real>(rule_.momentum * (mean - *old_mean));
    to_var = static_cast<Real>(rule_.momentum * (unbiased - *old_var));
  }
}

double NormalizingOp::SumParts(const Step& step, Real* state, int part, int j) const {
  double sum = 0;
  for (int t = 0; t < step.share.joint->tiles; ++t)
    sum += Part(state, t)[int64_t{part} * width() + j];
  return sum;
}

double NormalizingOp::Rows(const Step& step) const {
  const JointBatch& joint = *step.share.joint;
  return static_cast<double>(std::max<int64_t>(1, joint.Before(sequence(), joint.tiles)));
}

}  // namespace starling
