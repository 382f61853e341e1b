# SPDX-License-Identifier: MIT
# Parsing the standard library's headers and the generated ones takes a fifth to a half of what compiling a file takes.
set(NPU_COMMON_HEADERS algorithm atomic condition_variable filesystem fstream functional map memory mutex optional
  random set span sstream string thread unordered_map vector)
list(TRANSFORM NPU_COMMON_HEADERS REPLACE ".+" "<\\0>")

# What ccache needs to see whether a header has changed. GCC forgets that precompiled headers are the system's, and may
# warn of what it takes for mistakes in std::string's operator+ (GCC bugs 105329, 105651): append() is without.
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  set(NPU_PCH_OPTIONS "SHELL:-Xclang -fno-pch-timestamp")
else()
  set(NPU_PCH_OPTIONS -fpch-preprocess)
endif()

# npu_precompile_own(TARGET [HEADER...]): the common headers and these, compiled for this target.
function(npu_precompile_own target)
  foreach(header ${NPU_COMMON_HEADERS} ${ARGN})
    target_precompile_headers(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${header}>")
  endforeach()
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${NPU_PCH_OPTIONS}>")
endfunction()

# npu_precompile(TARGET...): the common headers, compiled once for all of these.
function(npu_precompile)
  if(NOT TARGET npu_common_headers)
    file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/npu_common_headers.cpp CONTENT "")
    add_library(npu_common_headers OBJECT ${CMAKE_BINARY_DIR}/npu_common_headers.cpp)
    npu_precompile_own(npu_common_headers)
  endif()
  foreach(target ${ARGN})
    target_precompile_headers(${target} REUSE_FROM npu_common_headers)
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${NPU_PCH_OPTIONS}>")
  endforeach()
endfunction()

# npu_alone(FILE...): files of this folder's targets that are compiled alone where others are compiled together.
function(npu_alone)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
