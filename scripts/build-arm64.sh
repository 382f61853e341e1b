#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Builds what runs on arm64 boards: build/arm64/bin, build/arm64/lib. Networks are compiled by the host's npuc.
#
#   build-arm64.sh [TARGET...]    of CMake's targets; default: everything

NPU_STEP=build-arm64
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

main() {
    local folder=$NPU_BUILD/arm64 env targets=("${@/#/--target=}")
    env=$("$NPU_TOP/scripts/sysroot-arm64.sh")
    # CMake has found things in there that may have gone.
    [ "$(cat "$folder/.sysroot" 2>/dev/null)" = "$env" ] || rm -rf "$folder"
    [ -e "$folder/build.ninja" ] ||
        cmake -S "$NPU_TOP" -B "$folder" -G Ninja --toolchain "$NPU_TOP/cmake/arm64.cmake" -DNPU_BOARD_ONLY=ON \
            -DNPU_WERROR=ON
    echo "$env" >"$folder/.sysroot"
    cmake --build "$folder" "${targets[@]}"
}

main "$@"
