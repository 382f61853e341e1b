# SPDX-License-Identifier: MIT
# find_package(qnpu) or find_package(libsophon): targets qnpu::npu, qnpu::bmlib and qnpu::bmrt, and the variables that
# programs for the vendor's library use: LIBSOPHON_INCLUDE_DIRS, LIBSOPHON_LIB_DIRS, LIBSOPHON_LIBS, the_libbmlib.so and
# the_libbmrt.so. Relative to this file, so that a tree may be moved.
get_filename_component(_npu_libraries "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
find_path(_npu_includes bmlib_runtime.h
  PATHS "${_npu_libraries}/../include" "${_npu_libraries}/../../include" NO_DEFAULT_PATH NO_CACHE)

find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(_npu_drm QUIET libdrm)
endif()

foreach(_npu_pair npu=npu bmlib=bmlib bmrt=npurt)
  string(REPLACE "=" ";" _npu_pair ${_npu_pair})
  list(GET _npu_pair 0 _npu_name)
  list(GET _npu_pair 1 _npu_file)
  if(NOT TARGET qnpu::${_npu_name})
    add_library(qnpu::${_npu_name} SHARED IMPORTED)
    set_target_properties(qnpu::${_npu_name} PROPERTIES
      IMPORTED_LOCATION "${_npu_libraries}/lib${_npu_file}.so"
      INTERFACE_INCLUDE_DIRECTORIES "${_npu_includes};${_npu_drm_INCLUDE_DIRS}")
  endif()
endforeach()
set_property(TARGET qnpu::bmlib PROPERTY INTERFACE_LINK_LIBRARIES qnpu::npu)
set_property(TARGET qnpu::bmrt PROPERTY INTERFACE_LINK_LIBRARIES qnpu::bmlib)

set(LIBSOPHON_INCLUDE_DIRS "${_npu_includes}" ${_npu_drm_INCLUDE_DIRS})
set(LIBSOPHON_LIB_DIRS "${_npu_libraries}")
set(LIBSOPHON_LIBS "${_npu_libraries}/libnpurt.so" "${_npu_libraries}/libbmlib.so")
set(the_libbmlib.so "${_npu_libraries}/libbmlib.so")
set(the_libbmrt.so "${_npu_libraries}/libbmrt.so")
