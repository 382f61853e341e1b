#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The driver's tests on an emulated board; prints "N passed, N failed" at the end.
#
#   check.sh stock    a few rounds on Debian's kernel
#   check.sh iommu    the same behind an emulated IOMMU
#   check.sh debug    all rounds under KASAN, lockdep and kmemleak
#
# Where everything is slow the card is small: what fills it takes less time.

cd "$(dirname "$0")/../.." || exit 1
run=$PWD/tests/guest/run.sh
# Files on a disk, which memory of a process can be a mapping of.
share=${NPU_BUILD:-build}/vm/guest-${1:-}
mkdir -p "$share" || exit 1
case ${1:-} in
    stock) exec tools/npu-vm --kernel stock --share "$share" --control --sleep --timeout 850 -- "$run" --quick ;;
    iommu) exec tools/npu-vm --kernel stock --iommu --device ddr=128M --share "$share" --control --timeout 850 -- "$run" --quick ;;
    debug)
        make -s module-debug || exit 1
        exec tools/npu-vm --kernel debug --memory 3G --device ddr=128M --kmemleak --append kunit.enable=1 --share "$share" --control --sleep --timeout 2350 -- "$run" --debug
        ;;
    *)
        echo "usage: check.sh stock|iommu|debug" >&2
        exit 2
        ;;
esac
