# kv_lesson(02 flat_cache TITLE "Keep K and V" SOURCES flat_kv_cache.cpp engine.cpp ... CUDA append_kv.cu ...)
#
# In the lesson's folder this makes
#   kv_lesson02          library: the lesson's structures, kernels and engine
#   lesson02             the program a learner runs (main.cpp)
#   lesson02_test        test/*_test.cpp, label lesson02;cpu
#   lesson02_gpu_test    test/gpu_test.cpp, label lesson02;gpu (a visible skip in a build without CUDA)
#   lesson02_further_test  test/further_test.cpp: the text's further tasks, which wait until they are begun
#   lesson02_exercise    lesson02_test over exercise/*.cpp and *.cu, once a learner has begun: built on demand
#   lesson02_gpu_exercise  lesson02_gpu_test over them
#   lesson02_exercise_asan  lesson02_exercise with sanitizers in those files: where a crash, a loop or a leak is; _tsan: a race
#   lesson02_exercise_whole  a short ladder on those files
#   lesson02_repair, lesson02_solutions  lesson02_test over the files of ./course repair, and of tools/exercise.py check
#   lesson02_substituted  lesson02_exercise with the lesson's own functions beside the learner's: in which step a mistake is; _gpu_, too
#   lesson02_mine        the program over those of them that pass (./course run 2 --mine)
#   lesson02_bench       bench/main.cpp, if there is one and KV_BENCH is on
#   kv_page02            page/*.cpp: its page in the visualizer
#   lesson02_page_test   test/page*_test.cpp: what the page does, without a picture
#   tests_lesson02       builds what is tested under the label lesson02; "tests_course" builds what ./course test runs,
#                        and "tests" what --all adds: tests with the label wing
#
# and adds the lesson to KV_LESSONS, from which the ladder is built.
include(CheckLinkerFlag)

# main() of the test binaries, compiled once for each kind: cpu, gpu, exercise.
function(kv_test_main kind)
  set(target kv_test_main_${kind})
  if(TARGET ${target})
    return()
  endif()
  add_library(${target} OBJECT EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/tests/test_main.cpp")
  target_link_libraries(${target} PRIVATE kv::common kv::options doctest::doctest)
  target_compile_options(${target} PRIVATE ${KV_LIGHT_OPTIONS})
  target_compile_definitions(${target} PRIVATE
    $<$<STREQUAL:${kind},gpu>:KV_TEST_NEEDS_GPU> $<$<STREQUAL:${kind},exercise>:KV_TEST_EXERCISE>)
endfunction()

# kv_test(NAME LABELS a b... SOURCES ... [LIBS ...]): a doctest binary; each case is a ctest test. Its labels are
# these, cpu or gpu, and the words of the case's suite (TEST_CASE("..." * doctest::test_suite("sweep"))):
#   sweep      the same code over many settings: not under sanitizers, nor on the simulated GPU
#   sweep_gpu  not on the simulated GPU
#   any_order  on the simulated GPU once more, its threads in a random order
# The label real_gpu of a whole program keeps it from the simulated GPU.
# WING: what ./course test leaves to --all.
# EXERCISE: a case that comes to a KV_TODO is skipped.
# ON_DEMAND: built and run only by name (tools/gpu_check.sh), unknown to "all" and to ctest.
function(kv_test name)
  cmake_parse_arguments(T "GPU;EXERCISE;ON_DEMAND;WING" "" "LABELS;SOURCES;LIBS;INCLUDES" ${ARGN})
  if(NOT KV_TESTS OR (T_ON_DEMAND AND NOT KV_HAVE_CUDA))
    return()
  endif()
  if(T_WING)
    list(APPEND T_LABELS wing)
  endif()
  set(kind cpu)
  if(T_GPU)
    set(kind gpu)
  elseif(T_EXERCISE)
    set(kind exercise)
  endif()
  if(T_GPU AND NOT KV_HAVE_CUDA)
    add_test(NAME "${name}: built without CUDA"
      COMMAND ${CMAKE_COMMAND} -E echo "SKIP: no nvcc or no GPU at configure time")
    set_tests_properties("${name}: built without CUDA" PROPERTIES
      LABELS "${T_LABELS};gpu" SKIP_REGULAR_EXPRESSION "^SKIP:")
    return()
  endif()
  kv_test_main(${kind})
  add_executable(${name} ${T_SOURCES} $<TARGET_OBJECTS:kv_test_main_${kind}>)
  target_include_directories(${name} PRIVATE ${T_INCLUDES})
  target_link_libraries(${name} PRIVATE ${T_LIBS} kv::options doctest::doctest)
  kv_precompiled(${name} test)
  target_compile_definitions(${name} PRIVATE KV_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(T_ON_DEMAND)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  list(TRANSFORM T_LABELS PREPEND tests_ OUTPUT_VARIABLE groups)
  if(NOT T_WING)
    list(APPEND groups tests_course)
  endif()
  foreach(group IN LISTS groups ITEMS tests)
    if(NOT TARGET ${group})
      add_custom_target(${group})
    endif()
    add_dependencies(${group} ${name})
  endforeach()
  # Each case becomes a test once the program is built.
  string(REPLACE "exercise" "cpu" kind "${kind}")
  set(list "${CMAKE_CURRENT_BINARY_DIR}/${name}_tests.cmake")
  add_custom_command(TARGET ${name} POST_BUILD BYPRODUCTS "${list}" VERBATIM
    COMMAND ${CMAKE_COMMAND} -D "program=$<TARGET_FILE:${name}>" -D "name=${name}" -D "labels=${T_LABELS};${kind}"
      -D "list=${list}" -P "${PROJECT_SOURCE_DIR}/cmake/kv_list_tests.cmake")
  set(file "${CMAKE_CURRENT_BINARY_DIR}/${name}_include.cmake")
  file(WRITE "${file}" "if(EXISTS \"${list}\")\n  include(\"${list}\")\nelse()\n  add_test(${name}_NOT_BUILT ${name}_NOT_BUILT)\n"
    "  set_tests_properties(${name}_NOT_BUILT PROPERTIES LABELS \"${T_LABELS};${kind}\")\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${file}")
endfunction()

# Makes ${t}_${what} and ${t}_gpu_${what}: the lesson's tests over other files than the lesson's. The linker
# takes symbols from these objects first, and from the lesson's library only those that they lack. "all" and
# ctest leave these targets out, so that a learner's unfinished files break nothing else.
function(kv_tests_over t what files)
  if(NOT KV_HAVE_CUDA)
    list(FILTER files EXCLUDE REGEX "[.]cu$")
  endif()
  if(NOT files OR NOT KV_TESTS)
    return()
  endif()
  add_library(${t}_${what}_files OBJECT EXCLUDE_FROM_ALL ${files})
  target_include_directories(${t}_${what}_files PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
  target_link_libraries(${t}_${what}_files PRIVATE kv_${t})
  set_target_properties(${t}_${what}_files PROPERTIES KV_ONLY_WARN ON)
  target_compile_options(${t}_${what}_files PRIVATE  # what is not written uses nothing
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-unused> $<$<COMPILE_LANGUAGE:CUDA>:--diag-suppress=177>)
  if(what MATCHES "substituted|solutions")  # a file has its functions up to a hundred times over
    target_compile_options(${t}_${what}_files PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O1>)
  endif()
  # front() of an empty vector ends the program. Precompiled headers are without these checks, so they are not used.
  target_compile_definitions(${t}_${what}_files PRIVATE $<$<COMPILE_LANGUAGE:CXX>:_GLIBCXX_ASSERTIONS>)
  kv_test_main(exercise)
  foreach(tests ${t} ${t}_gpu)
    if(TARGET ${tests}_test)
      add_executable(${tests}_${what} EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${t}_${what}_files>
        $<TARGET_OBJECTS:${tests}_test> $<TARGET_OBJECTS:kv_test_main_exercise>)
      target_link_libraries(${tests}_${what} PRIVATE kv_${t} kv::options doctest::doctest)
    endif()
  endforeach()
  # Sanitizers have a build of their own where all flags or the simulated GPU's tool name one. Only the learner's
  # files are instrumented: they compile in seconds, and every array of the heap is watched all the same.
  list(FILTER files EXCLUDE REGEX "[.]cu$")
  if(NOT files OR KV_SIMT_TOOL OR CMAKE_CXX_FLAGS MATCHES "-fsanitize=" OR NOT TARGET ${t}_${what})
    return()
  endif()
  target_compile_options(${t}_${what}_files PRIVATE  # a sum that does not fit in an int ends the program
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=signed-integer-overflow;-fsanitize-undefined-trap-on-error>)
  check_linker_flag(CXX "-fsanitize=leak" KV_HAVE_LSAN)
  if(KV_HAVE_LSAN)
    target_link_options(${t}_${what} PRIVATE -fsanitize=leak)
  endif()
  if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
    target_sources(${t}_${what} PRIVATE "${PROJECT_SOURCE_DIR}/tests/support/scribble.cpp")
  endif()
  if(NOT what STREQUAL "exercise")
    return()
  endif()
  foreach(tool asan tsan)
    # At -O0 the compiler leaves a race in the program, and does not keep the value in a register.
    set(sanitize "$<IF:$<STREQUAL:${tool},asan>,-O1;-fsanitize=address$<COMMA>undefined,-O0;-fsanitize=thread>")
    set(target ${t}_${what}_${tool})
    add_library(${target}_files OBJECT EXCLUDE_FROM_ALL ${files})
    target_include_directories(${target}_files PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
    target_link_libraries(${target}_files PRIVATE kv_${t})
    target_compile_definitions(${target}_files PRIVATE _GLIBCXX_ASSERTIONS)
    target_compile_options(${target}_files PRIVATE -w "${sanitize}" -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
    add_executable(${target} EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${target}_files> $<TARGET_OBJECTS:${t}_test>
      $<TARGET_OBJECTS:kv_test_main_exercise> $<$<STREQUAL:${tool},tsan>:${PROJECT_SOURCE_DIR}/tests/support/two_threads.cpp>)
    target_link_options(${target} PRIVATE "${sanitize}")
    target_link_libraries(${target} PRIVATE kv_${t} kv::options doctest::doctest)
  endforeach()
endfunction()

# lesson02_exercise_whole: the ladder of lesson 01 and this one (for lesson 01: 02) on the learner's files.
function(kv_whole num what)
  set(nums 01 ${num})
  if(num STREQUAL "01")
    set(nums 01 02)
  endif()
  set(includes "")
  set(entries "")
  foreach(n IN LISTS nums)
    file(GLOB folder RELATIVE "${PROJECT_SOURCE_DIR}/lessons" "${PROJECT_SOURCE_DIR}/lessons/${n}_*")
    string(APPEND includes "#include \"lessons/${folder}/engine.h\"\n")
    string(APPEND entries "      {\"${n}\", \"${folder}\", [](kv::Model& model, const Options& options) {\n"
      "         return make(lesson${n}::make_engine, model, options);\n       }},\n")
  endforeach()
  set(generated "${CMAKE_CURRENT_BINARY_DIR}/${what}_whole_lessons.cpp")
  file(CONFIGURE OUTPUT "${generated}" CONTENT "// Written by cmake/kv_lesson.cmake.
#include \"tests/ladder/second_act.h\"
@includes@
namespace ladder {
const std::vector<Lesson>& lessons() {
  static const std::vector<Lesson> kLessons{
@entries@  };
  return kLessons;
}
// A second act needs the last lessons.
const std::vector<Case>& cases() {
  static const std::vector<Case> kNone;
  return kNone;
}
std::vector<Pair> run_cases(kv::Model&, const Workload&, std::span<const Case>, const Options&,
                            const Watch&) {
  return {};
}
}  // namespace ladder
" @ONLY)
  list(TRANSFORM nums PREPEND kv_lesson)
  list(REVERSE nums)
  list(TRANSFORM ARGN PREPEND "${PROJECT_SOURCE_DIR}/tests/ladder/" OUTPUT_VARIABLE sources)
  set(target lesson${num}_${what}_whole)
  add_executable(${target} EXCLUDE_FROM_ALL $<TARGET_OBJECTS:lesson${num}_${what}_files> ${sources} "${generated}")
  target_link_libraries(${target} PRIVATE ${nums} kv::programs nlohmann_json::nlohmann_json)
  kv_precompiled(${target})
endfunction()

# The learner's files, of ./course exercise and of repair, and those that tools/exercise.py writes into the build folder.
function(kv_exercise num)
  foreach(what exercise repair substituted solutions)
    set(folder ${what})
    if(what MATCHES "substituted|solutions")
      set(folder "${CMAKE_CURRENT_BINARY_DIR}/${what}")
    endif()
    file(GLOB files CONFIGURE_DEPENDS ${folder}/*.cpp ${folder}/*.cu)
    kv_tests_over(lesson${num} ${what} "${files}")
    if(what MATCHES "exercise|substituted" AND TARGET lesson${num}_${what})
      kv_whole(${num} ${what} main.cpp ladder.cpp workload.cpp)
    endif()
  endforeach()
endfunction()

# kv_mine(lesson03): lesson03_mine, the same program on the learner's files, of this lesson and those before
# it. tools/exercise.py lists them in mine.txt of the build folder, a line lessons/03_topic/exercise/file.cpp
# each.
set(KV_MINE_LIST "${PROJECT_BINARY_DIR}/mine.txt")
if(NOT EXISTS "${KV_MINE_LIST}")
  file(WRITE "${KV_MINE_LIST}" "")
endif()
set_property(DIRECTORY "${PROJECT_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${KV_MINE_LIST}")
file(STRINGS "${KV_MINE_LIST}" KV_MINE)

function(kv_mine_files num topic)
  foreach(file IN LISTS KV_MINE)
    if(NOT file MATCHES "^lessons/${num}_${topic}/((exercise|repair)/.+)$")
      continue()
    endif()
    set(files lesson${num}_${CMAKE_MATCH_2}_files)
    if(TARGET ${files})
      string(REPLACE "." "[.]" object "${CMAKE_MATCH_1}.")
      set_property(GLOBAL APPEND PROPERTY KV_MINE_OBJECTS "$<FILTER:$<TARGET_OBJECTS:${files}>,INCLUDE,/${object}>")
    endif()
  endforeach()
endfunction()

function(kv_mine program)
  get_property(mine GLOBAL PROPERTY KV_MINE_OBJECTS)
  get_target_property(libraries ${program} LINK_LIBRARIES)
  add_executable(${program}_mine EXCLUDE_FROM_ALL ${mine} $<TARGET_OBJECTS:${program}>)
  target_link_libraries(${program}_mine PRIVATE ${libraries})
endfunction()

function(kv_lesson num topic)
  cmake_parse_arguments(L "" "TITLE" "SOURCES;CUDA;LIBS" ${ARGN})
  set(t lesson${num})
  set_property(GLOBAL APPEND PROPERTY KV_LESSONS "${num}_${topic}")

  add_library(kv_${t} STATIC ${L_SOURCES})
  if(KV_HAVE_CUDA)
    target_sources(kv_${t} PRIVATE ${L_CUDA})
  endif()
  target_include_directories(kv_${t} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
  target_link_libraries(kv_${t} PUBLIC kv::qwen3 kv::options ${L_LIBS})
  kv_precompiled(kv_${t} inner)

  add_executable(${t} main.cpp)
  target_link_libraries(${t} PRIVATE kv_${t} kv::programs)
  set_target_properties(${t} PROPERTIES PROJECT_LABEL "Lesson ${num}: ${L_TITLE}")
  kv_precompiled(${t})

  file(GLOB tests CONFIGURE_DEPENDS test/*_test.cpp)
  list(FILTER tests EXCLUDE REGEX "/((road_)?gpu|further|page[a-z_]*)_test\\.cpp$")  # targets of their own
  kv_test(${t}_test LABELS ${t} SOURCES ${tests} LIBS kv_${t} INCLUDES "${CMAKE_CURRENT_SOURCE_DIR}")
  if(KV_TESTS)  # half the time of a file of tests is the headers
    set_target_properties(${t}_test PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 4)
  endif()
  kv_test(${t}_gpu_test GPU LABELS ${t} SOURCES test/gpu_test.cpp LIBS kv_${t}
    INCLUDES "${CMAKE_CURRENT_SOURCE_DIR}")

  if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/test/further_test.cpp")
    kv_test(${t}_further_test EXERCISE LABELS ${t} further SOURCES test/further_test.cpp LIBS kv_${t}
      INCLUDES "${CMAKE_CURRENT_SOURCE_DIR}")
  endif()
  kv_exercise(${num})
  kv_mine_files(${num} ${topic})
  kv_mine(${t})

  if(KV_BENCH AND EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/bench/main.cpp")
    add_executable(${t}_bench bench/main.cpp)
    target_include_directories(${t}_bench PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
    target_link_libraries(${t}_bench PRIVATE kv_${t} kv::programs)
    kv_precompiled(${t}_bench inner)
  endif()

  if(NOT KV_WINGS)
    return()
  endif()
  file(GLOB page CONFIGURE_DEPENDS page/*.cpp)
  file(GLOB page_tests CONFIGURE_DEPENDS test/page*_test.cpp)
  if(page)
    set_property(GLOBAL APPEND PROPERTY KV_PAGES "${t}=kv_page${num}")
    add_library(kv_page${num} OBJECT ${page})  # in the visualizer and in the test
    target_include_directories(kv_page${num} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
    target_link_libraries(kv_page${num} PUBLIC kv_${t} kv_viz_core)
    kv_precompiled(kv_page${num})
  endif()
  if(page_tests)
    kv_test(${t}_page_test WING LABELS ${t} viz SOURCES ${page_tests} $<TARGET_OBJECTS:kv_page${num}>
      LIBS $<TARGET_PROPERTY:kv_page${num},INTERFACE_LINK_LIBRARIES> INCLUDES "${CMAKE_CURRENT_SOURCE_DIR}")
  endif()
endfunction()
