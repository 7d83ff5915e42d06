# Run when a test program is built (kv_test in kv_lesson.cmake): writes a file for ctest, with a test for each case of
# the program. The words of a case's suite are labels, beside those of the program.
execute_process(COMMAND "${program}" --list-test-cases --reporters=xml OUTPUT_VARIABLE cases RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "${program} --list-test-cases: ${failed}")
endif()
set(tests "")
string(REPLACE ";" "$end" cases "${cases}")  # of &lt; and the like: a list would be split there
string(REGEX MATCHALL "<TestCase( [a-z_]+=\"[^\"]*\")+" cases "${cases}")
foreach(case IN LISTS cases)
  if(NOT case MATCHES " name=\"([^\"]+)\"")
    message(FATAL_ERROR "${program} has a test case without a name: ${case}")
  endif()
  set(test "${CMAKE_MATCH_1}")
  set(suite "")
  if(case MATCHES " testsuite=\"([^\"]*)\"")
    string(REPLACE " " ";" suite "${CMAKE_MATCH_1}")
  endif()
  foreach(pair "&lt$end=<" "&gt$end=>" "&quot$end=\"" "&apos$end='" "&amp$end=&" "$end=;")
    string(REGEX MATCH "^([^=]+)=(.)$" _ "${pair}")
    string(REPLACE "${CMAKE_MATCH_1}" "${CMAKE_MATCH_2}" test "${test}")
  endforeach()
  string(REPLACE "," "\\," filter "${test}")  # which would begin a second name
  string(APPEND tests "add_test([==[${name}: ${test}]==] [==[${program}]==] [==[--test-case=${filter}]==])\n"
    "set_tests_properties([==[${name}: ${test}]==] PROPERTIES LABELS \"${labels};${suite}\" SKIP_RETURN_CODE 77\n"
    "  TIMEOUT 600 FAIL_REGULAR_EXPRESSION \"test cases: +0 [|]\")\n")  # long enough for a slow machine; and a filter that finds nothing
endforeach()
file(WRITE "${list}" "${tests}")
