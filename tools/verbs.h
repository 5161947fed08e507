// One function a verb, each in the file of its name.
#pragma once

#include "tools/verb.h"

namespace starling {

Verb BenchVerb();
Verb DoctorVerb();
Verb EvalVerb();
Verb ExplainVerb();
Verb ExportVerb();
Verb GenerateVerb();
Verb InitVerb();
Verb InspectVerb();
Verb LaunchVerb();
Verb OnlineVerb();
Verb PredictVerb();
Verb PsVerb();
Verb ServeVerb();
Verb TrainVerb();
Verb ValidateVerb();
Verb WorkerVerb();

}  // namespace starling
