# SPDX-License-Identifier: MIT
# What `make install` installs: libraries, headers, pkg-config files, tools, manual pages, the udev rule, documents. No
# test program, no static library.
include(GNUInstallDirs)
# For nobody to link with, and without a SONAME: libnpu-sim.so, libnpu-onednn.so and libnpuc.so. The libraries that load
# them look for them there.
set(npu_modules ${CMAKE_INSTALL_LIBDIR}/qnpu)

# For programs: with the names that a linker looks for.
set(npu_libraries npu bmlib npurt)
foreach(library ${npu_libraries})
  if(TARGET ${library})
    set_target_properties(${library} PROPERTIES INSTALL_RPATH "$ORIGIN")
    install(TARGETS ${library} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endforeach()
# The vendor's names: libbmrt.so for linkers, libbmrt.so.1.0 is what programs that were linked elsewhere have recorded.
foreach(link "libbmrt.so libnpurt.so" "libbmrt.so.1.0 libnpurt.so.1")
  string(REPLACE " " ";" link ${link})
  list(GET link 0 name)
  list(GET link 1 target)
  install(CODE "execute_process(COMMAND \${CMAKE_COMMAND} -E create_symlink ${target}
    \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/${name}\" COMMAND_ERROR_IS_FATAL ANY)")
endforeach()

# The simulator, and the chip's model, which QEMU uses, too.
if(TARGET npu-sim)
  set_target_properties(npumodel PROPERTIES INSTALL_RPATH "$ORIGIN")
  set_target_properties(npu-sim PROPERTIES INSTALL_RPATH "$ORIGIN/..")
  install(TARGETS npumodel LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} NAMELINK_SKIP)
  install(TARGETS npu-sim LIBRARY DESTINATION ${npu_modules})
endif()
if(TARGET npu-onednn)
  set_target_properties(npu-onednn PROPERTIES INSTALL_RPATH "")
  install(TARGETS npu-onednn LIBRARY DESTINATION ${npu_modules})
endif()

# The compiler for dynamic networks, loaded by libnpurt.
if(TARGET npuc_library)
  set_target_properties(npuc_library PROPERTIES INSTALL_RPATH "")
  install(TARGETS npuc_library LIBRARY DESTINATION ${npu_modules})
endif()

# The plug-in for ONNX Runtime, and what hosts need that cannot name one.
if(TARGET qnpu_ep)
  foreach(library qnpu_ep qnpu_ort)
    set_target_properties(${library} PROPERTIES INSTALL_RPATH "$ORIGIN/..")
    install(TARGETS ${library} LIBRARY DESTINATION ${npu_modules})
  endforeach()
  install(TARGETS qnpu_providers_shared LIBRARY DESTINATION ${npu_modules}/providers)
  install(DIRECTORY ort/js/ DESTINATION ${CMAKE_INSTALL_DATADIR}/qnpu/onnxruntime-qnpu)
endif()

install(DIRECTORY libnpu/include/ runtime/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp" PATTERN "npu_*_internal.h" EXCLUDE)
install(FILES uapi/drm/npu_accel.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# The prefix as seen from a folder below the libraries', so that a tree may be moved.
file(RELATIVE_PATH npu_up /${CMAKE_INSTALL_LIBDIR}/folder /)
string(REGEX REPLACE "/$" "" npu_up ${npu_up})
foreach(package npu bmlib npurt)
  configure_file(cmake/${package}.pc.in ${CMAKE_BINARY_DIR}/pkgconfig/${package}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/pkgconfig/${package}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
# Also under the vendor's name for the library.
install(FILES ${CMAKE_BINARY_DIR}/pkgconfig/npurt.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig RENAME bmrt.pc)

# find_package(): under our own name, and under the one that users of the vendor's library ask for.
foreach(package qnpu libsophon)
  install(FILES cmake/qnpu-config.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/${package} RENAME
    ${package}-config.cmake)
  include(CMakePackageConfigHelpers)
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/cmake/${package}-config-version.cmake
    VERSION ${PROJECT_VERSION} COMPATIBILITY AnyNewerVersion)
  install(FILES ${CMAKE_BINARY_DIR}/cmake/${package}-config-version.cmake
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/${package})
endforeach()

foreach(tool ${NPU_TOOLS})
  if(TARGET ${tool})
    install(TARGETS ${tool} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()

# Manual pages: of tools written by hand, of functions made from the headers' comments.
file(GLOB npu_headers CONFIGURE_DEPENDS libnpu/include/npu.h libnpu/include/bmlib_*.h runtime/include/*.h)
add_custom_command(
  OUTPUT ${CMAKE_BINARY_DIR}/man/man3.stamp
  COMMAND /usr/bin/python3 ${CMAKE_SOURCE_DIR}/scripts/reference.py --version ${PROJECT_VERSION} --man
  ${CMAKE_BINARY_DIR}/man/man3 ${npu_headers}
  COMMAND ${CMAKE_COMMAND} -E touch ${CMAKE_BINARY_DIR}/man/man3.stamp
  DEPENDS ${npu_headers} ${CMAKE_SOURCE_DIR}/scripts/reference.py
  COMMENT "Manual pages from the headers"
  VERBATIM)
add_custom_target(man3 ALL DEPENDS ${CMAKE_BINARY_DIR}/man/man3.stamp)
add_dependencies(extras man3)
install(DIRECTORY ${CMAKE_BINARY_DIR}/man/man3 DESTINATION ${CMAKE_INSTALL_MANDIR})
foreach(tool ${NPU_TOOLS})
  install(FILES man/${tool}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endforeach()

install(FILES tools/npu-smi/npu-smi.schema.json DESTINATION ${CMAKE_INSTALL_DATADIR}/qnpu)
install(FILES kernel/60-qnpu.rules DESTINATION lib/udev/rules.d)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md" PATTERN "*.schema.json"
  PATTERN "*.svg")
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY LICENSES DESTINATION ${CMAKE_INSTALL_DOCDIR})
