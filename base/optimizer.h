// Optimizer: the rule that steps a row of a table, or a dense tensor, by a
// gradient. Options are checked and turned into floats once, by Create; a step
// then reads no protobuf and allocates nothing.
//
// The bits of a step follow from options, weights, state and gradient alone:
// plain x86-64 and AVX2 give the same, since both do the same operations in
// the same order. docs/formats.md lists the state, since checkpoints hold it.
//
// A rule is one file of base/optimizers/ and one line of its registry.
//
// Thread safety: const after Create; any thread.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "base/optimizer.pb.h"

namespace starling {

enum class InstructionSet { kBase, kAvx2 };
InstructionSet BestInstructionSet();  // What this machine has.

// What a row that takes a step has; the arrays do not overlap.
struct RowToStep {
  float* weights;
  float* state;
  const float* grad;
};

class Optimizer {
 public:
  // InvalidArgument, naming the key ("adagrad.lr must be more than 0"), if an
  // option is outside its range or no rule is given. Another instruction set
  // than the machine's best is for tests.
  static absl::StatusOr<std::unique_ptr<const Optimizer>> Create(
      const OptimizerOptions& options, InstructionSet set = BestInstructionSet());
  virtual ~Optimizer() = default;

  const std::string& name() const { return name_; }  // As OptimizerName.
  // Floats of state for a row of `n` weights.
  virtual int StateSize(int n) const = 0;
  // State of a row that has not been stepped yet.
  void InitState(std::span<float> state) const {
    std::fill(state.begin(), state.end(), initial_state_);
  }
  // Makes the state of a row of `n` weights say that it has taken `steps`
  // steps; nothing, if the rule does not count them.
  virtual void SetSteps(std::span<float> /*state*/, int /*n*/, float /*steps*/) const {}
  // One step. The rule sees clip(grad) + l2 * weights; grad is not written.
  // The learning rate is the option's times lr_scale.
  // REQUIRES: grad.size() == weights.size(), state.size() == StateSize(of it).
  void Step(float lr_scale, std::span<float> weights, std::span<float> state,
            std::span<const float> grad) const {
    const RowToStep row = {weights.data(), state.data(), grad.data()};
    Update(static_cast<int>(weights.size()), lr_scale, {&row, 1});
  }
  // The same for many rows of n weights each, which spares the calls.
  virtual void Update(int n, float lr_scale, std::span<const RowToStep> rows) const = 0;

 protected:
  explicit Optimizer(float initial_state) : initial_state_(initial_state) {}
  // What the rule sees is grad * ScaleOf(grad) + l2() * weights.
  float ScaleOf(std::span<const float> grad) const { return clip_ > 0 ? ClipScale(grad) : 1.0f; }
  float l2() const { return l2_; }

 private:
  float ClipScale(std::span<const float> grad) const;

  const float initial_state_;
  std::string name_;
  float l2_ = 0;
  double clip_ = 0;
};

// An option that no optimiser can work with.
struct BadOption {
  std::string key;      // "adagrad.lr", or empty: no rule is given.
  std::string message;  // "must be more than 0"
};
std::optional<BadOption> FindBadOption(const OptimizerOptions& options);

// Name of the rule ("adagrad"), as the YAML key has it; "none" if none is set.
std::string OptimizerName(const OptimizerOptions& options);
// "sgd, momentum, …", for messages.
std::string OptimizerNames();

// The options for a parameter that must not shrink by itself, such as a bias:
// no common l2 and no weight_decay.
OptimizerOptions WithoutDecay(const OptimizerOptions& options);

}  // namespace starling
