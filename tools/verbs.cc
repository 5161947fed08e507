// The verbs, in the order a user meets them.
#include "tools/verbs.h"

namespace starling {

const std::vector<Verb>& AllVerbs() {
  // clang-format off
  static const std::vector<Verb>* verbs = new std::vector<Verb>{
      DoctorVerb(),
      GenerateVerb(),
      InitVerb(),
      ValidateVerb(),
      TrainVerb(),
      ExplainVerb(),
      EvalVerb(),
      PredictVerb(),
      ExportVerb(),
      ServeVerb(),
      OnlineVerb(),
      PsVerb(),
      WorkerVerb(),
      LaunchVerb(),
      InspectVerb(),
      BenchVerb(),
  };
  // clang-format on
  return *verbs;
}

}  // namespace starling
