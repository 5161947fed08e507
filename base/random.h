// Counter-based randomness: a value is a function of (key, counter), so that
// the order and the number of draws elsewhere never change it.
#pragma once

#include <cmath>
#include <cstdint>

namespace starling {

// SplitMix64's finaliser: a bijection that spreads every bit.
inline uint64_t Mix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}
inline uint64_t RandomBits(uint64_t key, uint64_t counter) { return Mix64(Mix64(key) ^ counter); }

// Uniform in [0, 1).
inline double RandomUniform(uint64_t key, uint64_t counter) {
  return static_cast<double>(RandomBits(key, counter) >> 11) * 0x1.0p-53;
}
// Standard normal (Box–Muller on two draws of the same counter).
inline double RandomNormal(uint64_t key, uint64_t counter) {
  double u = RandomUniform(key, 2 * counter), v = RandomUniform(key, 2 * counter + 1);
  return std::sqrt(-2.0 * std::log(1.0 - u)) * std::cos(6.283185307179586 * v);
}
// A number in [0, n).
inline uint64_t RandomBelow(uint64_t key, uint64_t counter, uint64_t n) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(RandomBits(key, counter)) * n) >>
                               64);
}

}  // namespace starling
