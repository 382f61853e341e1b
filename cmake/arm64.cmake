# SPDX-License-Identifier: MIT
# Toolchain file for the programs of arm64 boards, and of arm64 hosts (arm64-host.cmake): compiler and system root are
# in the cache.
execute_process(COMMAND ${CMAKE_CURRENT_LIST_DIR}/../scripts/sysroot-arm64.sh ${npu_sysroot_options} --env
  OUTPUT_VARIABLE environment OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
file(STRINGS ${environment} lines)
foreach(line ${lines})
  string(REGEX MATCH "^([A-Z]+)=(.*)$" matched ${line})
  set(NPU_${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
endforeach()

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_SYSROOT ${NPU_SYSROOT})
set(CMAKE_C_COMPILER ${NPU_COMPILER}/aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER ${NPU_COMPILER}/aarch64-linux-gnu-g++)

# Generators run here; what programs are made of is the board's.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${NPU_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${NPU_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${NPU_SYSROOT}/usr/share/pkgconfig)
