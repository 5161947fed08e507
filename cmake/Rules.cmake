# What most files include, parsed once a build instead of once a file: a target
# compiles faster with it and must compile without it (-DSTARLING_PCH=OFF).
option(STARLING_PCH "Precompiled headers" ON)
if(STARLING_PCH)
  file(WRITE ${CMAKE_BINARY_DIR}/pch.cc "")
  set(pch_deps absl::statusor absl::strings absl::synchronization absl::flat_hash_map absl::time protobuf::libprotobuf)
  add_library(starling_pch OBJECT ${CMAKE_BINARY_DIR}/pch.cc)
  target_link_libraries(starling_pch PRIVATE ${pch_deps} Threads::Threads)
  target_precompile_headers(starling_pch PRIVATE ${CMAKE_SOURCE_DIR}/cmake/common.h)
  add_library(starling_test_pch OBJECT ${CMAKE_BINARY_DIR}/pch.cc)
  target_link_libraries(starling_test_pch PRIVATE ${pch_deps} GTest::gmock GTest::gtest_main Threads::Threads)
  target_precompile_headers(starling_test_pch PRIVATE ${CMAKE_SOURCE_DIR}/cmake/common.h <gmock/gmock.h>)
endif()
function(starling_precompile name pch)
  if(STARLING_PCH)
    target_precompile_headers(${name} REUSE_FROM ${pch})
  endif()
endfunction()

# starling_library(NAME SRCS … [PROTOS …] [DEPS …])
#   One library a folder. Includes are written from the repository's root.
function(starling_library name)
  cmake_parse_arguments(arg "" "" "SRCS;PROTOS;DEPS" ${ARGN})
  set(generated)
  foreach(proto ${arg_PROTOS})
    get_filename_component(stem ${proto} NAME_WE)
    set(out ${CMAKE_BINARY_DIR}/gen/${name}/${stem}.pb)
    add_custom_command(
      OUTPUT ${out}.cc ${out}.h
      COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/gen
      COMMAND ${Protobuf_PROTOC_EXECUTABLE} -I${CMAKE_SOURCE_DIR} -I/usr/include
              --cpp_out=${CMAKE_BINARY_DIR}/gen ${CMAKE_CURRENT_SOURCE_DIR}/${proto}
      DEPENDS ${proto})
    list(APPEND generated ${out}.cc ${out}.h)
  endforeach()
  add_library(${name} STATIC ${arg_SRCS} ${generated})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_include_directories(${name} SYSTEM PUBLIC ${CMAKE_BINARY_DIR}/gen)
  set_source_files_properties(${generated} PROPERTIES COMPILE_OPTIONS "-w")
  target_link_libraries(${name} PUBLIC ${arg_DEPS} Threads::Threads)
  starling_precompile(${name} starling_pch)
endfunction()

# starling_kernel(LIB [AVX512] FILE…)
#   Compiles each FILE once an instruction set into LIB: for any x86-64, for AVX2
#   + FMA and, if asked, for AVX-512 (with STARLING_ISA naming the namespace:
#   `base`, `avx2` or `avx512`). A dispatcher in LIB chooses once at start-up.
#   Kernel files keep to plain loops and Eigen, so that no inline function of one
#   object can stand in for another's.
set(starling_avx2_options -mavx2 -mfma -mbmi -mbmi2)
# GCC 12 finds its own AVX-512 intrinsics uninitialised.
set(starling_avx512_options ${starling_avx2_options} -mavx512f -mavx512bw -mavx512dq -mavx512vl
    -mprefer-vector-width=512 -Wno-maybe-uninitialized)
function(starling_kernel lib)
  cmake_parse_arguments(arg "AVX512" "" "" ${ARGN})
  set(isas base avx2)
  if(arg_AVX512)
    list(APPEND isas avx512)
  endif()
  foreach(file ${arg_UNPARSED_ARGUMENTS})
    get_filename_component(stem ${file} NAME_WE)
    foreach(isa ${isas})
      add_library(${lib}_${stem}_${isa} OBJECT ${file})
      target_include_directories(${lib}_${stem}_${isa} PRIVATE ${CMAKE_SOURCE_DIR})
      target_link_libraries(${lib}_${stem}_${isa} PRIVATE Eigen3::Eigen)
      target_compile_definitions(${lib}_${stem}_${isa} PRIVATE STARLING_ISA=${isa})
      if(NOT isa STREQUAL base)
        target_compile_options(${lib}_${stem}_${isa} PRIVATE ${starling_${isa}_options})
        target_compile_definitions(${lib}_${stem}_${isa} PRIVATE Eigen=Eigen_${isa})
      endif()
      target_sources(${lib} PRIVATE $<TARGET_OBJECTS:${lib}_${stem}_${isa}>)
    endforeach()
  endforeach()
endfunction()

# starling_test(NAME SRCS … [DEPS …] [LABELS …])
#   One GoogleTest program; each of its tests is one ctest test. Labels: `fast`
#   runs under ASan too, `concurrent` under TSan too, `slow` in release only.
#   The targets fast_tests and concurrent_tests build just what those runs need.
add_custom_target(fast_tests)
add_custom_target(concurrent_tests)
function(starling_test name)
  cmake_parse_arguments(arg "" "" "SRCS;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${arg_SRCS})
  target_link_libraries(${name} PRIVATE ${arg_DEPS} GTest::gmock GTest::gtest_main)
  starling_precompile(${name} starling_test_pch)
  if(STARLING_SANITIZE MATCHES "thread")
    target_sources(${name} PRIVATE ${CMAKE_SOURCE_DIR}/cmake/tsan_hooks.cc)
    foreach(call N4absl7debian35Mutex4LockEv N4absl7debian35Mutex6UnlockEv
                 N4absl7debian35Mutex10ReaderLockEv N4absl7debian35Mutex12ReaderUnlockEv
                 N4absl7debian35Mutex5AwaitERKNS0_9ConditionE
                 N4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE
                 N4absl7debian37CondVar4WaitEPNS0_5MutexE N4absl7debian312Notification6NotifyEv
                 NK4absl7debian312Notification19WaitForNotificationEv)
      target_link_options(${name} PRIVATE -Wl,--wrap=_Z${call})
    endforeach()
  endif()
  foreach(label fast concurrent)
    if(label IN_LIST arg_LABELS)
      add_dependencies(${label}_tests ${name})
    endif()
  endforeach()
  include(GoogleTest)
  # One label, `fast_concurrent`: gtest_discover_tests takes no list, and -L matches parts.
  string(REPLACE ";" "_" labels "${arg_LABELS}")
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       PROPERTIES LABELS "${labels}" TIMEOUT 300
                       ENVIRONMENT "ARROW_DEFAULT_MEMORY_POOL=jemalloc")  # As tools/main.cc has it.
endfunction()

# starling_script_test(NAME FILE LABEL)
#   A pytest file as one ctest test. STARLING names the binary under test.
function(starling_script_test name file label)
  add_test(NAME ${name} COMMAND ${STARLING_PYTHON} -m pytest -q -p no:cacheprovider ${file})
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT 900
    ENVIRONMENT "STARLING=$<TARGET_FILE:starling>;PYTHONDONTWRITEBYTECODE=1")
endfunction()
