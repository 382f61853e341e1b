# SPDX-License-Identifier: MIT
# Toolchain file for arm64 hosts: everything but what needs a Python of that processor. Tests run in qemu-user.
set(npu_sysroot_options --host)
include(${CMAKE_CURRENT_LIST_DIR}/arm64.cmake)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L ${NPU_SYSROOT})
