# SPDX-License-Identifier: MIT
# Where ONNX Runtime is: the variables of scripts/onnxruntime.sh; nothing where it was not fetched.
execute_process(COMMAND ${CMAKE_SOURCE_DIR}/scripts/onnxruntime.sh --env OUTPUT_VARIABLE environment ERROR_QUIET
  OUTPUT_STRIP_TRAILING_WHITESPACE)
if(EXISTS "${environment}")
  file(STRINGS ${environment} lines)
  foreach(line ${lines})
    string(REGEX MATCH "^([A-Z_]+)=(.*)$" matched ${line})
    set(${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
  endforeach()
endif()
