#include "base/optimizers/adam.h"

namespace starling {

std::unique_ptr<Optimizer> MakeAdamw(const OptimizerOptions& options, OptionChecks* check,
                                     InstructionSet set) {
  const AdamwOptions& o = options.adamw();
  const double weight_decay = check->AtLeast("weight_decay", o.weight_decay(), 0);
  return Compile(AdamOf(o, weight_decay, check), set);
}

}  // namespace starling
