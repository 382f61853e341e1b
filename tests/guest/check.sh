#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The driver's tests on an emulated board; prints "N passed, N failed" at the end.
#
#   check.sh stock    a few rounds on Debian's kernel
#   check.sh iommu    what depends on how the card reaches memory, behind an emulated IOMMU
#   check.sh debug    all rounds under KASAN, lockdep and kmemleak; debug-use, debug-break: a half of them
#   check.sh cards    what two cards do together: behind the IOMMU on Debian's kernel, and without one on the debug
#                     kernel
#   check.sh deep     all rounds and every allocation that can fail, on the debug kernel, for hours; deep-stock,
#                     deep-iommu: all rounds
#
# debug-use and debug-break take a part of the longest tests, another one with each NPU_TENTH (0 to 9).
#
# Where everything is slow the card is small: what fills it takes less time.

cd "$(dirname "$0")/../.." || exit 1
run=$PWD/tests/guest/run.sh
# Files on a disk, which memory of a process can be a mapping of.
share=${NPU_BUILD:-build}/vm/guest-${1:-}
tenth=(--env "NPU_TENTH=${NPU_TENTH:-0}")
mkdir -p "$share" || exit 1

# Boots one board after the other, and adds their results up.
cards() {
    local board rounds passed=0 failed=0 log=$share/log
    make -s module-debug || exit 1
    for board in "stock --iommu" "debug --memory 3G --kmemleak"; do
        rounds=--quick
        [[ $board != debug* ]] || rounds=--debug
        echo "== --kernel $board"
        # shellcheck disable=SC2086 # words of options
        tools/npu-vm --kernel $board --cards 2 --device ddr=128M --control --timeout 600 -- "$run" $rounds two_cards \
            runtime_two_cards 2>&1 | tee "$log" | sed '$d' # the sum is below
        if [[ $(tail -n 1 "$log") =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
            passed=$((passed + BASH_REMATCH[1]))
            failed=$((failed + BASH_REMATCH[2]))
        else
            failed=$((failed + 1))
        fi
    done
    echo "$passed passed, $failed failed"
    [ $failed -eq 0 ] && [ $passed -gt 0 ]
}

case ${1:-} in
    stock) exec tools/npu-vm --kernel stock --device ddr=256M --share "$share" --control --sleep --timeout 850 -- \
        "$run" --quick ;;
    iommu) exec tools/npu-vm --kernel stock --iommu --device ddr=128M --share "$share" --control --timeout 850 -- \
        "$run" --quick-dma ;;
    debug | debug-use | debug-break)
        make -s module-debug || exit 1
        exec tools/npu-vm --kernel debug --memory 3G --device ddr=128M --kmemleak --append kunit.enable=1 --share \
            "$share" --control --sleep --timeout 2350 "${tenth[@]}" -- "$run" "--$1"
        ;;
    deep)
        make -s module-debug || exit 1
        exec tools/npu-vm --kernel debug --memory 3G --device ddr=128M --kmemleak --append kunit.enable=1 --share \
            "$share" --control --sleep --timeout 14300 -- "$run"
        ;;
    deep-stock) exec tools/npu-vm --kernel stock --share "$share" --control --sleep --timeout 7100 -- "$run" ;;
    deep-iommu) exec tools/npu-vm --kernel stock --iommu --device ddr=128M --share "$share" --control --sleep \
        --timeout 7100 -- "$run" ;;
    cards) cards ;;
    *)
        echo "usage: check.sh stock|iommu|debug|debug-use|debug-break|cards|deep|deep-stock|deep-iommu" >&2
        exit 2
        ;;
esac
