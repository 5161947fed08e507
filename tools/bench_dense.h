// What the files of `bench dense` share.
#pragma once

#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "tools/bench_gemm.h"

namespace starling {

// A fully connected layer, (in, out), and whether training needs the gradient
// of its input.
struct DenseLayer {
  int in = 0, out = 0;
  bool input_grad = true;
  // Of one row, forward and backward, a multiply-add being two.
  double flops() const { return (input_grad ? 6.0 : 4.0) * in * out; }
};

// The bare products of a training step: forward, gradient of the input and of
// the weights, of every layer, and nothing else. Each core has a share of the
// rows and weights of its own.
class BareStep {
 public:
  // Tries the libraries there are, each with all rows of a core at once and in
  // tiles of 256, and keeps to the fastest.
  BareStep(std::vector<DenseLayer> layers, int rows, ThreadPool* pool);
  void Run();
  const std::string& name() const { return name_; }

 private:
  struct Operands {
    std::vector<float> x, w, y, dx, dw;
  };
  void RunCore(const DenseLayer& layer, Operands* o) const;

  const std::vector<DenseLayer> layers_;
  const int core_rows_;
  ThreadPool* const pool_;
  std::vector<std::vector<Operands>> operands_;  // By core and layer.
  BareGemm gemm_ = nullptr;
  int tile_ = 0;
  std::string name_;
};

}  // namespace starling
