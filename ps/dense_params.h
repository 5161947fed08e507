// DenseParams: the network's parameters, one flat vector, and the optimiser
// state of each tensor.
//
// Thread safety: any method, any thread; one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/optimizer.h"
#include "ps/ps.pb.h"

namespace starling {

class DenseParams {
 public:
  // Starts at zero. The config must have passed CheckDense.
  explicit DenseParams(const StoreConfig& config);

  int64_t size() const { return static_cast<int64_t>(values_.size()); }  // Floats.
  // REQUIRES of all three: the span has size() floats.
  void Get(std::span<float> values) const;
  void Set(std::span<const float> values);
  // One step of each tensor's optimiser; a statistic takes a plain addition.
  void Apply(float lr_scale, std::span<const float> grads);

  // The bytes of dense.bin; see docs/formats.md.
  std::string Encode() const;
  // Tensors are matched by name. DataLoss if `bytes` is damaged,
  // FailedPrecondition, naming the tensor, if it was written for other
  // parameters or another optimiser; then nothing changes.
  absl::Status Decode(absl::string_view bytes, const std::string& file);

 private:
  struct Tensor {
    DenseParam param;
    const Optimizer* optimizer;  // Null for a statistic.
    int64_t offset = 0;          // In values_.
    std::vector<float> state;    // Guarded by mu_.
  };

  const Tensor* Find(absl::string_view name) const;

  const OptimizerOptions options_;
  std::unique_ptr<const Optimizer> decayed_, undecayed_;  // Null if nothing is optimised.
  mutable std::mutex mu_;
  std::vector<Tensor> tensors_;
  std::vector<float> values_;  // Guarded by mu_, but for its size.
  int64_t steps_ = 0;          // Guarded by mu_.
};

// InvalidArgument if a name is missing or there twice, a size is not
// positive, or there is something to optimise and no optimiser, or one with a
// bad option.
absl::Status CheckDense(const StoreConfig& config);

}  // namespace starling
