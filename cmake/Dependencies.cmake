# Third-party libraries. Debian packages, all but Arrow: an installed Arrow is
# taken first, else the libraries and headers inside the pinned pyarrow wheel
# that tools/setup put into its virtual environment.
find_package(Threads REQUIRED)
find_package(Protobuf REQUIRED)
find_package(absl CONFIG REQUIRED)
find_package(gflags CONFIG REQUIRED)
find_package(GTest CONFIG REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED)
find_package(Eigen3 CONFIG REQUIRED)
find_package(Boost 1.74 REQUIRED)

# Debian's RocksDB config names a gflags target that Debian's gflags does not
# export, so the library is found by hand.
find_path(ROCKSDB_INCLUDE rocksdb/db.h REQUIRED)
find_library(ROCKSDB_LIBRARY rocksdb REQUIRED)
add_library(starling_rocksdb INTERFACE)
target_include_directories(starling_rocksdb SYSTEM INTERFACE ${ROCKSDB_INCLUDE})
target_link_libraries(starling_rocksdb INTERFACE ${ROCKSDB_LIBRARY})

# Only ONNX's messages: the rest of the library is not needed to write a model.
find_library(ONNX_PROTO_LIBRARY onnx_proto REQUIRED)
add_library(starling_onnx INTERFACE)
target_link_libraries(starling_onnx INTERFACE ${ONNX_PROTO_LIBRARY})

# Debian's cpp-httplib is a compiled library: classes have the layout of the
# macros it was built with (its pkg-config file lists them).
find_path(HTTPLIB_INCLUDE httplib.h REQUIRED)
find_library(HTTPLIB_LIBRARY cpp-httplib REQUIRED)
add_library(starling_httplib INTERFACE)
target_include_directories(starling_httplib SYSTEM INTERFACE ${HTTPLIB_INCLUDE})
target_compile_definitions(starling_httplib INTERFACE CPPHTTPLIB_OPENSSL_SUPPORT
                           CPPHTTPLIB_ZLIB_SUPPORT CPPHTTPLIB_BROTLI_SUPPORT)
target_link_libraries(starling_httplib INTERFACE ${HTTPLIB_LIBRARY})

if(DEFINED ENV{STARLING_CACHE})
  set(STARLING_CACHE $ENV{STARLING_CACHE})
else()
  set(STARLING_CACHE $ENV{HOME}/.cache/starling)
endif()
set(STARLING_PYTHON ${STARLING_CACHE}/venv/bin/python)  # For tests; made by tools/setup.

find_package(Arrow CONFIG QUIET)
find_package(Parquet CONFIG QUIET)
add_library(starling_arrow INTERFACE)
if(Arrow_FOUND AND Parquet_FOUND)
  target_link_libraries(starling_arrow INTERFACE Arrow::arrow_shared Parquet::parquet_shared)
else()
  file(GLOB pyarrow ${STARLING_CACHE}/venv/lib/python3*/site-packages/pyarrow)
  if(NOT pyarrow)
    message(FATAL_ERROR "Arrow not found: neither installed nor in ${STARLING_CACHE}/venv. Run tools/setup.")
  endif()
  list(GET pyarrow 0 pyarrow)
  file(GLOB arrow_so ${pyarrow}/libarrow.so.*)
  file(GLOB parquet_so ${pyarrow}/libparquet.so.*)
  target_include_directories(starling_arrow SYSTEM INTERFACE ${pyarrow}/include)
  target_link_libraries(starling_arrow INTERFACE ${parquet_so} ${arrow_so})
  target_link_options(starling_arrow INTERFACE -Wl,-rpath,${pyarrow})
  message(STATUS "Arrow: ${pyarrow}")
endif()
