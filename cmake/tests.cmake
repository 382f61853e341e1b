# SPDX-License-Identifier: MIT
# How tests are registered. A component's tests have its label: set_directory_properties(PROPERTIES LABELS chip).

# npu_gtest(TARGET [SHARDS n] [TIMEOUT s] [LABELS l...] [ENVIRONMENT e...] [PROPERTIES name value...])
# A GoogleTest program is one test, or SHARDS of them that run beside each other: a process for each of its cases would
# cost more than most cases do.
function(npu_gtest target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "SHARDS;TIMEOUT" "LABELS;ENVIRONMENT;PROPERTIES")
  if(NOT arg_SHARDS)
    set(arg_SHARDS 1)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 1200)
  endif()
  math(EXPR last "${arg_SHARDS} - 1")
  foreach(shard RANGE ${last})
    set(name ${target})
    set(environment ${arg_ENVIRONMENT})
    if(last)
      set(name ${target}.${shard})
      list(APPEND environment GTEST_TOTAL_SHARDS=${arg_SHARDS} GTEST_SHARD_INDEX=${shard})
    endif()
    add_test(NAME ${name} COMMAND ${target})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}" ENVIRONMENT "${environment}"
      ${arg_PROPERTIES})
  endforeach()
endfunction()

# npu_define(FILE DEFINITION...): for this file of the folder's targets only. A definition with a path of the checkout
# keeps ccache from sharing what it is for with other checkouts.
function(npu_define file)
  set_source_files_properties(${file} PROPERTIES COMPILE_DEFINITIONS "${ARGN}")
endfunction()

# npu_expect(NAME STATUS PATTERN COMMAND...): a test that passes when the command ends with this status and its output
# has the pattern (an extended regular expression on the output in one line). CTest's PASS_REGULAR_EXPRESSION does not
# look at the status.
function(npu_expect name status pattern)
  add_test(NAME ${name} COMMAND ${CMAKE_SOURCE_DIR}/tests/expect.sh ${status} ${pattern} ${ARGN})
endfunction()
