# SPDX-License-Identifier: MIT
# Unity builds: up to NPU_UNITY_BATCH sources of a target are compiled as one file, which takes a third of the time and
# up to 1.1 GB of memory.
# Three kinds of sources are compiled alone: those of npu_alone(), those with flags of their own, and those that were
# edited in this checkout, so that a change recompiles one file. cmake/edited-files.sh keeps the list of edited files.
#
# CMake's own UNITY_BUILD names sources by absolute paths. These files name them from the top of the checkout, so that
# ccache shares objects between checkouts.
if(NPU_SANITIZE)
  set(unity OFF)
else()
  set(unity ON)
endif()
option(NPU_UNITY "compile the sources of a target in batches" ${unity})
set(NPU_UNITY_BATCH 64 CACHE STRING "sources in a batch of a unity build")

# npu_alone(FILE...): sources of this folder's targets that are not part of a batch.
function(npu_alone)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

if(NPU_UNITY)
  set(edited_list ${CMAKE_BINARY_DIR}/edited-files)
  set(edited_command ${CMAKE_SOURCE_DIR}/cmake/edited-files.sh ${CMAKE_SOURCE_DIR} ${edited_list})
  execute_process(COMMAND ${edited_command} COMMAND_ERROR_IS_FATAL ANY)
  file(STRINGS ${edited_list} npu_edited_files)
  # Ninja updates the list before each build, because the second output never exists, and runs CMake if it has changed.
  add_custom_command(OUTPUT ${edited_list} ${edited_list}.always COMMAND ${edited_command}
    COMMENT "Looking for edited sources" VERBATIM)
  add_custom_target(edited_files DEPENDS ${edited_list})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${edited_list})
endif()

# npu_is_alone(FOLDER FILE NAME RESULT): whether FILE of FOLDER's targets, NAME from the top, is compiled alone.
function(npu_is_alone folder file name result)
  set(${result} OFF PARENT_SCOPE)
  foreach(property SKIP_UNITY_BUILD_INCLUSION COMPILE_OPTIONS COMPILE_DEFINITIONS)
    get_source_file_property(value ${file} DIRECTORY ${folder} ${property})
    if(value)
      set(${result} ON PARENT_SCOPE)
    endif()
  endforeach()
  if(name IN_LIST npu_edited_files OR name MATCHES "^\\.\\.")
    set(${result} ON PARENT_SCOPE)
  endif()
endfunction()

# npu_unity_batch(TARGET NUMBER NAME...): compiles these sources of the target as one.
function(npu_unity_batch target number)
  list(LENGTH ARGN count)
  if(count EQUAL 0)
    return()
  endif()
  list(GET ARGN 0 first)
  cmake_path(GET first EXTENSION LAST_ONLY extension)
  set(batch ${CMAKE_BINARY_DIR}/unity/${target}_${number}${extension})
  list(TRANSFORM ARGN REPLACE "(.+)" "#include \"\\1\"" OUTPUT_VARIABLE includes)
  list(JOIN includes "\n" text)
  file(CONFIGURE OUTPUT ${batch} CONTENT "${text}\n" @ONLY)
  list(TRANSFORM ARGN PREPEND ${CMAKE_SOURCE_DIR}/ OUTPUT_VARIABLE paths)
  set_source_files_properties(${paths} TARGET_DIRECTORY ${target} PROPERTIES HEADER_FILE_ONLY ON)
  target_sources(${target} PRIVATE ${batch})
endfunction()

# The batch of a file depends on its place in the target's list alone: when a file leaves its batch, the others stay
# as they are.
function(npu_unity_target target)
  get_target_property(wanted ${target} UNITY_BUILD)
  get_target_property(sources ${target} SOURCES)
  if(wanted STREQUAL OFF OR NOT sources)
    return()
  endif()
  get_target_property(folder ${target} SOURCE_DIR)
  foreach(extension cpp c)
    set(of_language ${sources})
    list(FILTER of_language INCLUDE REGEX "^[^$]*\\.${extension}$")
    set(place 0)
    set(batch)
    foreach(source ${of_language})
      cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder} NORMALIZE OUTPUT_VARIABLE path)
      file(RELATIVE_PATH name ${CMAKE_SOURCE_DIR} ${path})
      npu_is_alone(${folder} ${path} ${name} alone)
      if(NOT alone)
        list(APPEND batch ${name})
      endif()
      math(EXPR place "${place} + 1")
      math(EXPR left "${place} % ${NPU_UNITY_BATCH}")
      if(left EQUAL 0)
        npu_unity_batch(${target} ${place} ${batch})
        set(batch)
      endif()
    endforeach()
    npu_unity_batch(${target} ${place} ${batch})
  endforeach()
endfunction()

# npu_unity(FOLDER...): unity builds for all targets of these folders and of those below.
function(npu_unity)
  foreach(folder ${ARGN})
    get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target ${targets})
      npu_unity_target(${target})
    endforeach()
    get_property(below DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
    npu_unity(${below})
  endforeach()
endfunction()
