#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The driver's fuzzer in a board with the debug kernel: run.sh [SECONDS [SEED [PROCESSES]]]. A warning of the kernel, of
# KASAN or lockdep, a leak or a process that does not end is a failure. The seed is printed; it leads the same way
# again, as far as the scheduler lets it.

cd "$(dirname "$0")/../../.." || exit 1
time=${1:-600}
make -s module-debug || exit 1
exec tools/npu-vm --kernel debug --memory 3G --smp 4 --kmemleak --sleep --timeout $((time + 900)) -- \
    "$PWD/build/bin/tests/guest/fuzz" "$time" "${@:2}"
