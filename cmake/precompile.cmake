# SPDX-License-Identifier: MIT
# Sanitizers make headers expensive: with them, parsing the standard library's and the generated ones takes a third to a
# half of what compiling a file takes. Their builds precompile what most files of a target include.
set(NPU_COMMON_HEADERS algorithm atomic condition_variable filesystem fstream functional map memory mutex optional
  random set span sstream string thread unordered_map vector)
list(TRANSFORM NPU_COMMON_HEADERS REPLACE ".+" "<\\0>")

# What ccache needs to see whether a header has changed.
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  set(NPU_PCH_OPTIONS "SHELL:-Xclang -fno-pch-timestamp")
else()
  set(NPU_PCH_OPTIONS -fpch-preprocess)
endif()

# npu_precompile_always(TARGET [HEADER...])
function(npu_precompile_always target)
  foreach(header ${NPU_COMMON_HEADERS} ${ARGN})
    target_precompile_headers(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${header}>")
  endforeach()
  target_compile_options(${target} PRIVATE ${NPU_PCH_OPTIONS})
endfunction()

# npu_precompile(TARGET [HEADER...]): in builds for sanitizers; in others GCC, which optimises, warns of what it takes
# for mistakes in the standard library once that comes precompiled.
function(npu_precompile)
  if(NPU_SANITIZE)
    npu_precompile_always(${ARGV})
  endif()
endfunction()
