#include "dense_net/forward.h"
namespace starling {
SegmentNeeds NeedsOf(const ModelOptions& m) {
  switch (m.kind_case()) {
    case ModelOptions::kLr: return {true, false};
    case ModelOptions::kFm: case ModelOptions::kWideDeep: case ModelOptions::kDeepfm: return {true, true};
    default: return {false, true};
  }
}
}
