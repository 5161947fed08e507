// Narrow storage of floats: a run of weights kept as fp16, bf16 or int8 while
// all arithmetic stays fp32. A value that is stored after every small step must
// not be rounded to nearest, or steps below half a unit are lost for good:
// Encode rounds up or down at random, with probabilities by distance, so that
// the stored value is right on average. The random bits are a function of
// (random_key, position in the run) alone: a replay stores the same bytes.
//
//   fp32  the floats as they are.
//   fp16  IEEE half. Finite values beyond +-65504 are stored as +-65504.
//   bf16  The upper half of an fp32. Finite values saturate likewise.
//   int8  One fp32 scale, then q in -127..127; a value is q * scale. The scale
//         is max|x| / 127, rounded to 16 significant bits, which makes every
//         q * scale exact. The largest |x| always gets q = +-127, so a decoded
//         run has the scale it was decoded from.
//
// Decoded values encode to the bytes they came from, by Encode under any key and
// by EncodeNearest: a row may leave as fp32 and come back unchanged. (int8 has
// no -0: it reads as 0.)
//
// NaN and infinity stay what they are in fp16 and bf16; a NaN becomes quiet. In
// int8, where neither has a place, a run that holds one decodes to NaN
// throughout: damage stays visible.
//
// Bytes are equal on every machine, whatever instructions it has. Thread
// safety: pure functions.
#pragma once

#include <cstdint>
#include <span>

namespace starling {

enum class FloatType { kFp32, kFp16, kBf16, kInt8 };

// Bytes of a run of n values; a multiple of 4. What is beyond the values is zero.
int EncodedBytes(FloatType type, int n);

// For all three: `bytes` has room for EncodedBytes(type, run length), is
// aligned to 4 and does not overlap the floats.
void Decode(FloatType type, const void* bytes, std::span<float> out);
// Stochastic rounding. Runs encoded at one moment (the segments of a row, say)
// need keys of their own, or their errors go together.
void Encode(FloatType type, std::span<const float> in, uint64_t random_key, void* bytes);
// Rounds to nearest, ties to even.
void EncodeNearest(FloatType type, std::span<const float> in, void* bytes);

}  // namespace starling
