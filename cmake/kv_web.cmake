# WebAssembly (./course web): emscripten has no packages, so libraries come as source: those that are
# only headers from this machine's packages, the others as tools/web/sources.sh fetches them.
set(KV_WEB_SOURCES "${PROJECT_SOURCE_DIR}/build/sources" CACHE PATH "Where tools/web/sources.sh put imgui, pcre2 and utf8proc")
set(KV_WEB_ROOT "/course")  # of the files that a page brings along
foreach(name imgui pcre2 utf8proc)
  if(NOT EXISTS "${KV_WEB_SOURCES}/${name}")
    message(FATAL_ERROR "${KV_WEB_SOURCES} has no ${name}: tools/web/sources.sh ${KV_WEB_SOURCES} fetches it")
  endif()
endforeach()
file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/headers")
foreach(header fmt nlohmann CLI xxhash.h stb)
  find_path(KV_WHERE_${header} ${header} PATHS /usr/include /usr/local/include NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH REQUIRED)
  file(CREATE_LINK "${KV_WHERE_${header}}/${header}" "${PROJECT_BINARY_DIR}/headers/${header}" SYMBOLIC)
endforeach()
foreach(name fmt::fmt nlohmann_json::nlohmann_json CLI11::CLI11 PkgConfig::XXHASH)
  add_library(${name} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${name} INTERFACE "${PROJECT_BINARY_DIR}/headers")
endforeach()
target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY)
target_compile_definitions(PkgConfig::XXHASH INTERFACE XXH_INLINE_ALL=)

# Options to compile and link every file with: exceptions, and vectors as all browsers have them.
add_compile_options(-fexceptions -msimd128)
add_link_options(-fexceptions -sALLOW_MEMORY_GROWTH=1)

set(PCRE2_BUILD_PCRE2GREP OFF CACHE BOOL "")
set(PCRE2_BUILD_TESTS OFF CACHE BOOL "")
add_subdirectory("${KV_WEB_SOURCES}/pcre2" "${PROJECT_BINARY_DIR}/pcre2" EXCLUDE_FROM_ALL)
add_subdirectory("${KV_WEB_SOURCES}/utf8proc" "${PROJECT_BINARY_DIR}/utf8proc" EXCLUDE_FROM_ALL)
target_compile_options(pcre2-8-static PRIVATE -w)
add_library(PkgConfig::PCRE2 ALIAS pcre2-8-static)
add_library(PkgConfig::UTF8PROC ALIAS utf8proc)

file(GLOB imgui "${KV_WEB_SOURCES}/imgui/imgui*.cpp")
list(FILTER imgui EXCLUDE REGEX "imgui_demo")
add_library(kv_imgui STATIC ${imgui} "${KV_WEB_SOURCES}/imgui/backends/imgui_impl_opengl3.cpp")
target_include_directories(kv_imgui SYSTEM PUBLIC "${KV_WEB_SOURCES}/imgui" "${PROJECT_BINARY_DIR}/headers/stb")
# WebGL has no vertex offsets, so with indices of 16 bits all after the first 65,536 vertices of a picture would be wrong.
target_compile_definitions(kv_imgui PUBLIC "ImDrawIdx=unsigned int" PRIVATE IMGUI_IMPL_OPENGL_ES3 IMGUI_DISABLE_DEMO_WINDOWS)
target_compile_options(kv_imgui PRIVATE -w)
set(KV_HAVE_IMGUI ON)
set(KV_HAVE_WINDOW OFF)
set(KV_VIZ_FONT "${KV_WEB_ROOT}/DejaVuSans.ttf")

# Included before every file of the course: functions that this standard library does not have yet.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-include${PROJECT_SOURCE_DIR}/cmake/web/missing_std.h>)

# kv_web_program(TARGET EXPORT METHODS [link options]): a module that a page or a worker makes by calling EXPORT().
function(kv_web_program target export methods)
  target_link_options(${target} PRIVATE -sMODULARIZE=1 -sEXPORT_NAME=${export} -sINVOKE_RUN=0 -sFORCE_FILESYSTEM=1
    "-sEXPORTED_RUNTIME_METHODS=${methods}" -sENVIRONMENT=web,worker ${ARGN})
endfunction()
