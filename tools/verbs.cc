// The verbs, in the order a user meets them.
#include "tools/verbs.h"

namespace starling {

const std::vector<Verb>& AllVerbs() {
  static const std::vector<Verb>* verbs = new std::vector<Verb>{
      GenerateVerb(),
      TrainVerb(),
      EvalVerb(),
      ExportVerb(),
  };
  return *verbs;
}

}  // namespace starling
