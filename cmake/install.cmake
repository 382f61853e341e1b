# SPDX-License-Identifier: MIT
# What `make install` installs: libraries, headers, pkg-config files, tools, manual pages, the udev rule, documents. No test program, no static library.
set(CMAKE_INSTALL_LIBDIR lib CACHE PATH "libraries, below the prefix")
include(GNUInstallDirs)
set(npu_modules ${CMAKE_INSTALL_LIBDIR})  # libnpu-sim.so, libnpu-onednn.so and libnpuc.so are looked for beside the library that loads them

# For programs: with the names that a linker looks for.
set(npu_libraries npu bmlib npurt)
foreach(library ${npu_libraries})
  if(TARGET ${library})
    set_target_properties(${library} PROPERTIES INSTALL_RPATH "$ORIGIN")
    install(TARGETS ${library} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endforeach()
install(CODE "execute_process(COMMAND \${CMAKE_COMMAND} -E create_symlink libnpurt.so
  \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/libbmrt.so\" COMMAND_ERROR_IS_FATAL ANY)")

# The simulator: for nobody to link with.
if(TARGET npu-sim)
  set_target_properties(npumodel npu-sim PROPERTIES INSTALL_RPATH "$ORIGIN")
  install(TARGETS npumodel LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} NAMELINK_SKIP)
  install(TARGETS npu-sim LIBRARY DESTINATION ${npu_modules})
endif()
if(TARGET npu-onednn)
  install(TARGETS npu-onednn LIBRARY DESTINATION ${npu_modules})
endif()

# The compiler for dynamic networks, loaded by libnpurt.
install(TARGETS npuc_library LIBRARY DESTINATION ${npu_modules})

install(DIRECTORY libnpu/include/ runtime/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp" PATTERN "*_internal.h" EXCLUDE)
install(FILES uapi/drm/npu_accel.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

foreach(package npu bmlib npurt)
  configure_file(cmake/${package}.pc.in ${CMAKE_BINARY_DIR}/pkgconfig/${package}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/pkgconfig/${package}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
# Also under the vendor's name for the library.
install(FILES ${CMAKE_BINARY_DIR}/pkgconfig/npurt.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig RENAME bmrt.pc)

foreach(tool npuc npu-smi npu-asm bmrt_test tpu_model)
  if(TARGET ${tool})
    install(TARGETS ${tool} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()

# Manual pages: of tools written by hand, of functions made from the headers' comments.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
file(GLOB npu_headers CONFIGURE_DEPENDS libnpu/include/npu.h libnpu/include/bmlib_*.h runtime/include/*.h)
add_custom_command(
  OUTPUT ${CMAKE_BINARY_DIR}/man/man3.stamp
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/scripts/reference.py --version ${PROJECT_VERSION} --man ${CMAKE_BINARY_DIR}/man/man3 ${npu_headers}
  COMMAND ${CMAKE_COMMAND} -E touch ${CMAKE_BINARY_DIR}/man/man3.stamp
  DEPENDS ${npu_headers} ${CMAKE_SOURCE_DIR}/scripts/reference.py
  COMMENT "Manual pages from the headers"
  VERBATIM)
add_custom_target(man3 ALL DEPENDS ${CMAKE_BINARY_DIR}/man/man3.stamp)
install(DIRECTORY ${CMAKE_BINARY_DIR}/man/man3 DESTINATION ${CMAKE_INSTALL_MANDIR})
install(DIRECTORY man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 FILES_MATCHING PATTERN "*.1")

install(FILES libnpu/60-npu.rules DESTINATION lib/udev/rules.d)
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md")
install(FILES README.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
