// A verb of the one binary: `starling NAME [flags]`. One file a verb; each
// defines its own gflags and adds itself to the list in tools/verbs.cc.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace starling {

struct VerbCall {
  std::vector<std::string> args;  // Positional.
  std::vector<std::string> set;   // Each `--set a.b=v`, in order.
};

struct Verb {
  const char* name;
  const char* summary;             // One line.
  const char* usage;               // "starling train --config job.yaml [--resume]"
  std::vector<const char*> flags;  // Names of the gflags it takes; any other is an error.
  // Data goes to stdout, everything else to stderr. The Status decides the
  // exit code (base/status.h); its message is printed by main.
  absl::Status (*run)(const VerbCall& call);
};

// Defined in tools/verbs.cc, one register line each.
const std::vector<Verb>& AllVerbs();

}  // namespace starling
