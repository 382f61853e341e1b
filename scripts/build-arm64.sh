#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Builds for arm64. For boards: build/arm64/bin, build/arm64/lib; networks are compiled by the host's npuc. For arm64
# hosts: build/arm64-host, with compiler and chip model, but without the packages for Python.
#
#   build-arm64.sh [TARGET...]         for boards; of CMake's targets; default: everything
#   build-arm64.sh --host [TARGET...]  for hosts
#   build-arm64.sh --test [ARGUMENT...]  the unit tests of the latter, in qemu-user; arguments are ctest's

NPU_STEP=build-arm64
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

main() {
    local folder=$NPU_BUILD/arm64 toolchain=arm64 env sysroot=() options=(-DNPU_BOARD_ONLY=ON) test= starters
    case ${1:-} in
        --host | --test)
            [ "$1" = --host ] || test=yes
            folder+=-host toolchain+=-host sysroot=(--host) options=(-DNPU_PYTHON=OFF)
            shift
            ;;
    esac
    if [ -n "$test" ]; then
        [ -e "$folder/build.ninja" ] || die "nothing is built for arm64 hosts" "run: make build-arm64-host"
        need_program qemu-aarch64
        # Left out: tests that start arm64 programs themselves, and children that start threads after a fork. qemu-user
        # runs neither.
        starters='^(examples|npu-smi|npuc|tpu_model|bmrt_test)\.|^libnpu\.(auto|log-level)$'
        starters+='|^npu_(bmrt_test_test|runtime_c_test)|^cpu_operators$'
        export GTEST_FILTER=-ThreadsTest.AForkedChildLeavesItsParentsObjectsAlone
        # A program in qemu-user that lists /tmp sees the folder of that name in the system root.
        export TEST_TMPDIR=$folder/tmp
        mkdir -p "$TEST_TMPDIR"
        exec "$NPU_TOP/scripts/run_ctest.py" "$folder" -LE '^fork$' -E "$starters" "$@"
    fi
    env=$("$NPU_TOP/scripts/sysroot-arm64.sh" "${sysroot[@]}")
    # CMake has found things in there that may have gone.
    [ "$(cat "$folder/.sysroot" 2>/dev/null)" = "$env" ] || rm -rf "$folder"
    [ -e "$folder/build.ninja" ] || need_space 300 "$folder"
    [ -e "$folder/build.ninja" ] ||
        cmake -S "$NPU_TOP" -B "$folder" -G Ninja --toolchain "$NPU_TOP/cmake/$toolchain.cmake" "${options[@]}" \
            -DNPU_WERROR=ON
    echo "$env" >"$folder/.sysroot"
    cmake --build "$folder" -j"$NPU_JOBS" "${@/#/--target=}"
}

main "$@"
