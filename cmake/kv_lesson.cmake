# kv_lesson(02 flat_cache TITLE "Keep K and V" SOURCES flat_kv_cache.cpp engine.cpp ... CUDA append_kv.cu ...)
#
# In the lesson's folder this makes
#   kv_lesson02          library: the lesson's structures, kernels and engine
#   lesson02             the program a learner runs (main.cpp)
#   lesson02_test        test/*_test.cpp, label lesson02;cpu
#   lesson02_gpu_test    test/gpu_test.cpp, label lesson02;gpu (a visible skip in a build without CUDA)
#   lesson02_exercise    the same tests over exercise/*.cpp, once a learner has begun: built on demand
#   lesson02_bench       bench.cpp, if there is one and KV_BENCH is on
#   kv_page02            page.cpp and page_*.cpp: its page in the visualizer
#   lesson02_page_test   test/page*_test.cpp: what the page does, without a picture
#   tests_lesson02       builds what is tested under the label lesson02; "tests" builds all that ctest runs
#
# and adds the lesson to KV_LESSONS, from which the ladder is built.
include(doctest OPTIONAL)

# main() of the test binaries, compiled once for each kind: cpu, gpu, exercise.
function(kv_test_main kind)
  set(target kv_test_main_${kind})
  if(TARGET ${target})
    return()
  endif()
  add_library(${target} OBJECT EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/tests/test_main.cpp")
  target_link_libraries(${target} PRIVATE kv::base kv::options doctest::doctest)
  target_compile_options(${target} PRIVATE ${KV_TEST_OPTIONS})
  target_compile_definitions(${target} PRIVATE
    $<$<STREQUAL:${kind},gpu>:KV_TEST_NEEDS_GPU> $<$<STREQUAL:${kind},exercise>:KV_TEST_EXERCISE>)
endfunction()

# kv_test(NAME LABELS a b... SOURCES ... [LIBS ...]): a doctest binary; each case is a ctest test.
# ON_DEMAND: built and run by those who name it (tools/gpu_check.sh), unknown to "all" and to ctest.
function(kv_test name)
  cmake_parse_arguments(T "GPU;ON_DEMAND" "" "LABELS;SOURCES;LIBS;INCLUDES" ${ARGN})
  if(NOT KV_TESTS OR (T_ON_DEMAND AND NOT KV_HAVE_CUDA))
    return()
  endif()
  set(kind cpu)
  if(T_GPU)
    set(kind gpu)
  endif()
  if(T_GPU AND NOT KV_HAVE_CUDA)
    add_test(NAME "${name}: built without CUDA"
      COMMAND ${CMAKE_COMMAND} -E echo "SKIP: no CUDA compiler at configure time")
    set_tests_properties("${name}: built without CUDA" PROPERTIES
      LABELS "${T_LABELS};gpu" SKIP_REGULAR_EXPRESSION "^SKIP:")
    return()
  endif()
  kv_test_main(${kind})
  add_executable(${name} ${T_SOURCES} $<TARGET_OBJECTS:kv_test_main_${kind}>)
  target_include_directories(${name} PRIVATE ${T_INCLUDES})
  target_link_libraries(${name} PRIVATE ${T_LIBS} kv::options doctest::doctest)
  target_compile_options(${name} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${KV_TEST_OPTIONS}>")
  kv_precompiled(${name} test)
  target_compile_definitions(${name} PRIVATE
    KV_SOURCE_DIR="${PROJECT_SOURCE_DIR}" KV_BINARY_DIR="${PROJECT_BINARY_DIR}")
  if(T_ON_DEMAND)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  list(TRANSFORM T_LABELS PREPEND tests_ OUTPUT_VARIABLE groups)
  foreach(group IN LISTS groups ITEMS tests)
    if(NOT TARGET ${group})
      add_custom_target(${group})
    endif()
    add_dependencies(${group} ${name})
  endforeach()
  doctest_discover_tests(${name} TEST_PREFIX "${name}: "
    PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600)  # a slow machine is no failure
  # doctest's PROPERTIES keeps only the first label of a list, so labels are set by a second include
  # file; and a filter that matches no case exits 0, so that is made a failure.
  set(labels "${T_LABELS};${kind}")
  set(file "${CMAKE_CURRENT_BINARY_DIR}/${name}_labels.cmake")
  file(WRITE "${file}" "foreach(t IN LISTS ${name}_TESTS)\n  set_tests_properties(\"\${t}\" PROPERTIES LABELS \"${labels}\" FAIL_REGULAR_EXPRESSION \"test cases: +0 [|]\")\nendforeach()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${file}")
endfunction()

# The lesson's tests once more, over exercise/x.cpp in place of x.cpp: what a learner's objects define,
# the linker does not take from the lesson's library. Neither "all" nor ctest knows it: what a learner
# has not finished breaks nothing else (./course exercise 2).
function(kv_exercise num)
  file(GLOB files CONFIGURE_DEPENDS exercise/*.cpp)
  if(NOT files OR NOT KV_TESTS)
    return()
  endif()
  set(t lesson${num})
  kv_test_main(exercise)
  add_executable(${t}_exercise EXCLUDE_FROM_ALL
    ${files} $<TARGET_OBJECTS:${t}_test> $<TARGET_OBJECTS:kv_test_main_exercise>)
  target_include_directories(${t}_exercise PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
  target_compile_options(${t}_exercise PRIVATE -Wno-unused)  # what is not written uses nothing
  target_link_libraries(${t}_exercise PRIVATE kv_${t} kv::options doctest::doctest)
endfunction()

function(kv_lesson num topic)
  cmake_parse_arguments(L "" "TITLE" "SOURCES;CUDA;LIBS" ${ARGN})
  set(t lesson${num})
  set_property(GLOBAL APPEND PROPERTY KV_LESSONS "${num}_${topic}")

  add_library(kv_${t} STATIC ${L_SOURCES})
  if(KV_HAVE_CUDA)
    target_sources(kv_${t} PRIVATE ${L_CUDA})
  endif()
  target_link_libraries(kv_${t} PUBLIC kv::model kv::options ${L_LIBS})
  kv_precompiled(kv_${t})

  add_executable(${t} main.cpp)
  target_link_libraries(${t} PRIVATE kv_${t} kv::program)
  set_target_properties(${t} PROPERTIES PROJECT_LABEL "Lesson ${num}: ${L_TITLE}")
  kv_precompiled(${t})

  file(GLOB tests CONFIGURE_DEPENDS test/*_test.cpp)
  list(FILTER tests EXCLUDE REGEX "/((road_)?gpu|page[a-z_]*)_test\\.cpp$")  # targets of their own
  kv_test(${t}_test LABELS ${t} SOURCES ${tests} LIBS kv_${t} INCLUDES "${CMAKE_CURRENT_SOURCE_DIR}")
  kv_test(${t}_gpu_test GPU LABELS ${t} SOURCES test/gpu_test.cpp LIBS kv_${t}
    INCLUDES "${CMAKE_CURRENT_SOURCE_DIR}")

  kv_exercise(${num})

  if(KV_BENCH AND EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/bench.cpp")
    add_executable(${t}_bench bench.cpp)
    target_link_libraries(${t}_bench PRIVATE kv_${t} kv::program)
    kv_precompiled(${t}_bench)
  endif()

  file(GLOB page CONFIGURE_DEPENDS page.cpp page_*.cpp)
  file(GLOB page_tests CONFIGURE_DEPENDS test/page*_test.cpp)
  if(page)
    set_property(GLOBAL APPEND PROPERTY KV_PAGES "${num}")
    add_library(kv_page${num} OBJECT ${page})  # in the visualizer and in the test
    target_link_libraries(kv_page${num} PUBLIC kv_${t} kv_viz_core)
    kv_precompiled(kv_page${num})
  endif()
  if(page_tests)
    kv_test(${t}_page_test LABELS ${t} viz SOURCES ${page_tests} $<TARGET_OBJECTS:kv_page${num}>
      "${PROJECT_SOURCE_DIR}/tests/viz/fake_widgets.cpp" LIBS kv_${t} kv_viz_core
      INCLUDES "${CMAKE_CURRENT_SOURCE_DIR}")
  endif()
endfunction()
