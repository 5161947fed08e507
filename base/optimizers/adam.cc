#include "base/optimizers/adam.h"

namespace starling {
namespace {

constexpr size_t kTableMax = 1 << 16;

// beta^t by squaring.
double Power(double beta, size_t t) {
  double result = 1;
  for (; t > 0; t >>= 1, beta *= beta) {
    if (t & 1) result *= beta;
  }
  return result;
}

// value(0), value(1), … until it stays 1 or the table is full.
template <typename T, typename Fn>
std::vector<T> Tabulate(const Fn& value) {
  std::vector<T> table = {1};  // There is no step 0.
  while (table.size() < kTableMax && (table.size() == 1 || table.back() != 1)) {
    table.push_back(value(table.size()));
  }
  return table;
}

}  // namespace

BiasCorrections::BiasCorrections(double beta1, double beta2) : beta1_(beta1), beta2_(beta2) {
  first_ = Tabulate<double>([this](size_t t) { return FirstBeyond(t); });
  second_ = Tabulate<float>([this](size_t t) { return SecondBeyond(t); });
}

double BiasCorrections::FirstBeyond(size_t t) const { return 1.0 - Power(beta1_, t); }

float BiasCorrections::SecondBeyond(size_t t) const {
  return static_cast<float>(1.0 / std::sqrt(1.0 - Power(beta2_, t)));
}

std::unique_ptr<Optimizer> MakeAdam(const OptimizerOptions& options, OptionChecks* check,
                                    InstructionSet set) {
  Adam adam = AdamOf(options.adam(), 0, check);
  adam.eps_uncorrected = options.adam().eps_uncorrected();
  return Compile(std::move(adam), set);
}

}  // namespace starling
