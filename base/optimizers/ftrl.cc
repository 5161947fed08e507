#include "base/optimizers/ftrl.h"

namespace starling {

std::unique_ptr<Optimizer> MakeFtrl(const OptimizerOptions& options, OptionChecks* check,
                                    InstructionSet set) {
  return Compile(FtrlOf(options.ftrl(), check), set);
}

}  // namespace starling
