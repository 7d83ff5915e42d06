# What nobody times is compiled for a short build: pages, programs, instruments, tests. Optimised is what runs for
# long: kernels, the model, threads, lessons, pictures ("inner").
#
# Headers that nearly every file includes cost half a second each time, so they are compiled once: for
# the course's code, at both levels, and with doctest for tests. kv_precompiled(TARGET [inner|test]) gives them to a target.
# The headers of the course are never among them: a change would build everything again. A preset that
# has CMAKE_DISABLE_PRECOMPILE_HEADERS finds the #include that a file lacks: wasm. ccache takes them if
# CCACHE_SLOPPINESS has pch_defines and time_macros; else it likes it better without.
if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache" AND NOT "$ENV{CCACHE_SLOPPINESS}" MATCHES "pch_defines"
    AND NOT DEFINED CMAKE_DISABLE_PRECOMPILE_HEADERS)
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
endif()
set(CMAKE_PCH_WARN_INVALID OFF)  # a compiler that cannot use them reads the headers themselves
set(CMAKE_PCH_INSTANTIATE_TEMPLATES OFF)
set(KV_COMMON_HEADERS <algorithm> <array> <cmath> <cstdint> <cstring> <filesystem> <functional> <limits>
  <map> <memory> <numeric> <optional> <set> <span> <stdexcept> <string> <string_view> <unordered_map>
  <utility> <vector> <fmt/format.h>)
set(KV_LIGHT_OPTIONS -Og)
set(KV_INNER_OPTIONS "")  # the preset's -O2
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=")
  # Optimizing takes half of the time to compile, and only inner loops give it back.
  set(KV_LIGHT_OPTIONS "")
  set(KV_INNER_OPTIONS -O1)
  add_compile_definitions(KV_SANITIZED)  # tests do fewer random operations
elseif(EMSCRIPTEN)
  set(KV_LIGHT_OPTIONS "")  # all of it is small
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # which warns at -Og and -O1 of strings that are never too short
  list(APPEND KV_LIGHT_OPTIONS -Wno-array-bounds -Wno-stringop-overflow -Wno-restrict -Wno-maybe-uninitialized)
endif()

function(kv_precompiled target)
  set(name kv_headers)
  set(options ${KV_LIGHT_OPTIONS})
  if("test" IN_LIST ARGN)
    set(name kv_test_headers)
  elseif("inner" IN_LIST ARGN)
    set(name kv_inner_headers)
    set(options ${KV_INNER_OPTIONS})
  endif()
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${options}>")
  if(NOT TARGET ${name})
    file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/${name}.cpp" CONTENT "// Written by cmake/kv_precompiled.cmake.\n")
    add_library(${name} OBJECT EXCLUDE_FROM_ALL "${PROJECT_BINARY_DIR}/${name}.cpp")
    target_link_libraries(${name} PRIVATE kv::options fmt::fmt Threads::Threads)
    target_compile_options(${name} PRIVATE ${options})
    target_precompile_headers(${name} PRIVATE ${KV_COMMON_HEADERS})
    if(name STREQUAL kv_test_headers)
      target_link_libraries(${name} PRIVATE doctest::doctest)
      target_precompile_headers(${name} PRIVATE <doctest/doctest.h>)
    endif()
  endif()
  target_precompile_headers(${target} REUSE_FROM ${name})
endfunction()
