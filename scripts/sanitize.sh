#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Builds the tests with sanitizers, by clang, in a tree of their own, and runs them.
#
#   sanitize.sh address   all unit tests under AddressSanitizer and UndefinedBehaviorSanitizer: build-asan
#   sanitize.sh thread    the threaded tests under ThreadSanitizer: build-tsan

NPU_STEP=sanitize
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$NPU_TOP"

case ${1:-} in
    address)
        tree=$NPU_BUILD-asan sanitizers=address,undefined targets=(unit_programs)
        # Header checks, installation and documents: a sanitizer can find nothing there; a fork of a process with
        # threads does not work with them.
        tests=(-LE 'abi|documents|install|fork')
        # The LeakSanitizer of clang 14 has a list of thread-local blocks of loaded libraries, also of threads that
        # have ended, and may end with signal 11 when it reads them. Without the list it leaves these blocks out.
        export ASAN_OPTIONS=intercept_tls_get_addr=0
        ;;
    thread)
        tree=$NPU_BUILD-tsan sanitizers=thread tests=(-L thread)
        # Programs of the tests with this label, and what they load.
        targets=(npu-sim npu_model_test npu_command_test npu_libnpu_test npu_runtime_test npu_shapes_test npu_quant_test
            npu_plugin_test npu_runtime_c_test npu_bmrt_test_test npu_python_test bmrt_test bmodel_seeds
            fuzz_chip_thread)
        ;;
    *) die "usage: sanitize.sh address|thread" ;;
esac
# The tests run under the lock, too: nothing may build beneath them.
lock_tree "$tree"
NPU_BUILD=$tree CC=clang CXX=clang++ scripts/configure.sh -DNPU_SANITIZE="$sanitizers"
ninja -C "$tree" -j"$NPU_JOBS" "${targets[@]}"
exec scripts/run_ctest.py "$tree" "${tests[@]}"
