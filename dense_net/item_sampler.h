// Draws among the items of a batch, for losses that hold a row's own item against some of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dense_net/model.pb.h"

namespace starling {

// The chance of each item in one draw, in the order of `frequencies` (any positive scale):
// even; log((rank + 2) / (rank + 1)) by falling frequency, which is about 1 / (rank + 1); or as
// the frequencies. They sum to 1.
void DrawChances(LossOptions::SampledSoftmax::Sampler sampler, std::span<const double> frequencies,
                 std::vector<double>* chances);

// How often each item is drawn in n draws with replacement; a function of its arguments.
void DrawItems(std::span<const double> chances, int n, uint64_t seed, std::vector<uint32_t>* drawn);

}  // namespace starling
