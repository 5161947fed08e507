// Deliberately wrong variants of the code, to show that the tests catch them.
//
// STARLING_WRONG("name") is the constant false, except in the programs of
// tests/crash that compile a few files with STARLING_WRONG_VARIANTS: there it
// is true if the environment variable STARLING_WRONG, names with a comma
// between, holds the name.
#pragma once

#ifdef STARLING_WRONG_VARIANTS
#include <cstdlib>
#include <string>
#define STARLING_WRONG(name)                                                          \
  ([] {                                                                               \
    const char* wanted = std::getenv("STARLING_WRONG");                               \
    return wanted != nullptr &&                                                       \
           ("," + std::string(wanted) + ",").find("," name ",") != std::string::npos; \
  }())
#else
#define STARLING_WRONG(name) false
#endif
