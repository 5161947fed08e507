// The verbs of starling_wrong: what the crash harness calls.
#include "tools/verbs.h"

namespace starling {

const std::vector<Verb>& AllVerbs() {
  static const std::vector<Verb>* verbs = new std::vector<Verb>{
      TrainVerb(), ExportVerb(), LaunchVerb(), PsVerb(), WorkerVerb(), OnlineVerb()};
  return *verbs;
}

}  // namespace starling
