# Libraries: the system's package first (./course installs them on Debian and Ubuntu), a download
# where a system lacks one.
if(EMSCRIPTEN)
  include(kv_web)
  find_package(Threads REQUIRED)
  return()
endif()
include(FetchContent)
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

FetchContent_Declare(fmt
  URL https://github.com/fmtlib/fmt/archive/refs/tags/9.1.0.tar.gz
  FIND_PACKAGE_ARGS 9)
FetchContent_Declare(nlohmann_json
  URL https://github.com/nlohmann/json/archive/refs/tags/v3.11.2.tar.gz
  FIND_PACKAGE_ARGS 3.10)
FetchContent_Declare(CLI11
  URL https://github.com/CLIUtils/CLI11/archive/refs/tags/v2.1.2.tar.gz
  FIND_PACKAGE_ARGS 2.1)
FetchContent_MakeAvailable(fmt nlohmann_json CLI11)

# C libraries come with pkg-config files.
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(CRYPTO REQUIRED IMPORTED_TARGET libcrypto)  # SHA-256
option(KV_ZMQ "Watch servers over ZeroMQ, where libzmq is found" ON)
if(KV_WINGS AND KV_ZMQ)
  pkg_check_modules(ZMQ IMPORTED_TARGET libzmq)
  find_path(KV_CPPZMQ zmq_addon.hpp)  # cppzmq is headers alone
endif()
set(KV_HAVE_ZMQ OFF)
if(KV_WINGS AND KV_ZMQ AND ZMQ_FOUND AND KV_CPPZMQ)
  set(KV_HAVE_ZMQ ON)
endif()

option(KV_LIBEVENT "Build ./course serve, where libevent is found" ON)
if(KV_WINGS AND KV_LIBEVENT)
  pkg_check_modules(LIBEVENT IMPORTED_TARGET libevent libevent_pthreads)
endif()
set(KV_HAVE_LIBEVENT OFF)
if(KV_WINGS AND KV_LIBEVENT AND LIBEVENT_FOUND)
  set(KV_HAVE_LIBEVENT ON)
endif()

if(KV_TESTS)
  FetchContent_Declare(doctest
    URL https://github.com/doctest/doctest/archive/refs/tags/v2.4.11.tar.gz
    FIND_PACKAGE_ARGS 2.4.9 NAMES doctest)
  FetchContent_MakeAvailable(doctest)
endif()
