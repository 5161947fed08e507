set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

# Debug builds serve the sanitizers and gdb: some optimisation keeps the suites short.
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1 -fno-omit-frame-pointer")
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG -fno-omit-frame-pointer")
# One binary for every x86-64 machine: no -march here. Hot kernels are compiled
# once per instruction set by starling_kernel() and chosen at run time.
add_compile_options(-Wall -Wextra -Werror -Wno-sign-compare -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 sees overlaps in std::string::insert and overruns in string literals that are not there.
  add_compile_options(-Wno-restrict -Wno-array-bounds)
endif()

set(STARLING_SANITIZE "" CACHE STRING "Sanitizers, as in -fsanitize=")
if(STARLING_SANITIZE)
  add_compile_options(-fsanitize=${STARLING_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${STARLING_SANITIZE})
  if(STARLING_SANITIZE MATCHES "thread")
    add_compile_options(-Wno-tsan)
  endif()
endif()

find_program(CCACHE ccache)
if(CCACHE)
  # Paths below the source count as relative: another clone finds the same objects.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()
add_compile_options($<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)  # ccache and precompiled headers need it.
find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
endif()
