#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Configures the build folder if needed, and builds targets of CMake in it. Only one process at a time: the others say
# for whom they wait.
#
#   build.sh demo [npu-smi]   what a demo needs
#   build.sh programs         the same, what programs in C, C++ and Python need, and all tools
#   build.sh programs extras  what `make install` installs
#   build.sh all              everything, with the tests
#   build.sh TARGET...        these

NPU_STEP=build
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

[ $# -gt 0 ] || die "usage: build.sh programs|all|TARGET..."
lock_tree "$NPU_BUILD"
options=() space=350
case "$*" in
    demo | "demo npu-smi" | programs | "programs extras")
        [ -e "$NPU_BUILD/build.ninja" ] || options=(-DBUILD_TESTING=OFF)
        ;;
    *)
        space=700
        grep -q '^BUILD_TESTING:BOOL=ON' "$NPU_BUILD/CMakeCache.txt" 2>/dev/null || options=(-DBUILD_TESTING=ON)
        ;;
esac
[ -e "$NPU_BUILD/.ninja_log" ] || need_space "$space" "$NPU_BUILD"
"$NPU_TOP/scripts/configure.sh" "${options[@]}"
if [ ! -e "$NPU_BUILD/.ninja_log" ]; then
    steps=$(ninja -C "$NPU_BUILD" -t commands "$@" | wc -l)
    # Measured: docs/develop/environment.md.
    say "$steps steps, about $((steps * 4 / $(nproc) / 60 + 1)) minutes on $(nproc) processors"
fi
exec ninja -C "$NPU_BUILD" -j"$NPU_JOBS" "$@"
