// The number type of values, parameters and gradients inside dense_net.
//
// A program is built with one of the two throughout: float, or double for the
// gradient check (dense_net_double_test), whose central differences need it.
// What comes from outside (a batch's labels, raws, weights) is float in both.
#pragma once

namespace starling {

#ifdef STARLING_REAL_DOUBLE
using Real = double;
#else
using Real = float;
#endif

}  // namespace starling
