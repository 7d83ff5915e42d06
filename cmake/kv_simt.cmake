# KV_CUDA=SIMT: CUDA kernels run on the CPU (simt/, docs/simt.md). Every .cu file of every target is
# compiled as C++, against simt/include instead of CUDA's headers.
set(KV_SIMT_TOOL "" CACHE STRING "asan: overruns; tsan: races; trace: what loads and stores cost")
set_property(CACHE KV_SIMT_TOOL PROPERTY STRINGS "" asan tsan trace)
set(KV_HAVE_CUDA ON)
set(CMAKE_CUDA_ARCHITECTURES simulated)

# A .cu file finds simt/include instead of CUDA.
set(KV_SIMT_FLAGS -DKV_SIMT=1 -isystem "${PROJECT_SOURCE_DIR}/simt/include" -fno-strict-aliasing
  -Wno-unknown-pragmas -Wno-unused -D__CUDA_ARCH_LIST__=800)
# A tool looks at kernels: host code is compiled the same way in all of these builds (and looked at by the
# preset asan) and in the preset ci, so that ccache compiles it once. With frame pointers reports show where an
# array came from.
set(KV_FRAME_POINTERS ON)
if(KV_SIMT_TOOL)
  string(TOUPPER "SIMT_${KV_SIMT_TOOL}" KV_SIMT_DEFINES)
  list(APPEND KV_SIMT_FLAGS -D${KV_SIMT_DEFINES}=1 -Wno-maybe-uninitialized)
endif()
if(KV_SIMT_TOOL STREQUAL "asan")  # at -O0 a learner's variables are in memory, which simt/worker.h fills
  list(APPEND KV_SIMT_FLAGS -fsanitize=address,undefined -fno-sanitize-recover=undefined $<IF:$<BOOL:$<TARGET_PROPERTY:KV_ONLY_WARN>>,-O0,-O1>)
  add_link_options(-fsanitize=address,undefined)
elseif(KV_SIMT_TOOL STREQUAL "tsan")
  list(APPEND KV_SIMT_FLAGS -fsanitize=thread -O1 -fsanitize-coverage=trace-pc)
  add_link_options(-fsanitize=thread)
elseif(KV_SIMT_TOOL STREQUAL "trace")  # calls at every access, which simt/trace.cpp takes
  list(APPEND KV_SIMT_FLAGS -fsanitize=thread -O1 -fno-tree-sra -fno-ipa-sra)
endif()
add_library(CUDA::cudart_static INTERFACE IMPORTED GLOBAL)
target_link_libraries(CUDA::cudart_static INTERFACE kv_simt)

function(kv_simt_sources directory)
  get_property(targets DIRECTORY "${directory}" PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(sources ${target} SOURCES)
    get_target_property(at ${target} SOURCE_DIR)
    foreach(source IN LISTS sources)
      cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY "${at}")
      if(source MATCHES "[.]cu$")
        set_source_files_properties("${source}" TARGET_DIRECTORY ${target}
          PROPERTIES LANGUAGE CXX SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "${KV_SIMT_FLAGS}")
      elseif(source MATCHES "/(common/device|cublas|test/gpu_test)[.]cpp$")  # the only host code that asks
        set_source_files_properties("${source}" TARGET_DIRECTORY ${target} PROPERTIES COMPILE_DEFINITIONS KV_SIMT=1)
      endif()
    endforeach()
  endforeach()
  get_property(below DIRECTORY "${directory}" PROPERTY SUBDIRECTORIES)
  foreach(subdirectory IN LISTS below)
    kv_simt_sources("${subdirectory}")
  endforeach()
endfunction()
cmake_language(DEFER DIRECTORY "${PROJECT_SOURCE_DIR}" CALL kv_simt_sources "${PROJECT_SOURCE_DIR}")
