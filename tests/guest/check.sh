#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The driver's tests on an emulated board; prints "N passed, N failed" at the end.
#
#   check.sh stock    a few rounds on Debian's kernel
#   check.sh iommu    what depends on how the card reaches memory, behind an emulated IOMMU
#   check.sh debug    all rounds under KASAN, lockdep and kmemleak; debug-use, debug-break: a half of them
#   check.sh virt     on an arm64 board: what depends on how the card reaches memory, and the runtime
#   check.sh soc      on a SoC whose caches are not coherent: mistakes with caches, also behind the SMMU, suites that
#                     are not the same on every board, the runtime, and device trees that are wrong
#   check.sh soc-debug  suites about memory, sleep and removal there, under KASAN, lockdep and the DMA API's checker
#   check.sh cards    what two cards do together: behind the IOMMU on Debian's kernel, and without one on the debug
#                     kernel
#   check.sh deep     all rounds and every allocation that can fail, on the debug kernel, for hours; deep-stock,
#                     deep-iommu: all rounds; deep-virt: every suite on an arm64 board; deep-soc: on a SoC, also on
#                     the debug kernel; deep-pages: with larger pages of the system, suites whose tests do not count
#                     pages
#
# debug-use and debug-break take a part of the longest tests, another one with each NPU_TENTH (0 to 9).
#
# On Debian's kernel the suites that run.sh names are on an exact board, where nothing can be late. Its card's memory is
# slow: who moves little keeps it busy for long. All other boards have time enough on a busy host.
#
# Where everything is slow the card is small: what fills it takes less time.

cd "$(dirname "$0")/../.." || exit 1
run=$PWD/tests/guest/run.sh
# Files on a disk, which memory of a process can be a mapping of. An exact board finds the same each time: nothing.
share=${NPU_BUILD:-build}/vm/guest-${1:-}
log=$share.log
debug=(--kernel debug --memory 3G --device ddr=128M --kmemleak --append kunit.enable=1)
debug+=(--env "NPU_TENTH=${NPU_TENTH:-0}")
soc_debug=(--kernel debug --memory 3G --kmemleak --append kunit.enable=1 --env "NPU_TENTH=${NPU_TENTH:-0}")
rm -rf "$share"
mkdir -p "$share" || exit 1
soc_suites=(device buffers jobs prime userptr coherency isolation kill reset removal modules kunit libnpu-bo
    libnpu-copy libnpu-bm_cache)
any_pages=(observe fences uring syncfile priority gang faults isolation memory_reuse coherency removal kunit
    libnpu-bm_launch libnpu-cache)
passed=0
failed=0

# board OPTION... -- COMMAND...: boots one, and adds its result up.
board() {
    echo "== npu-vm $*"
    add_up tools/npu-vm --share "$share" --control "$@"
}

# add_up COMMAND...: adds up what it says at its end.
add_up() {
    local status
    "$@" 2>&1 | tee "$log" | sed '$d' # the sum is below
    status=${PIPESTATUS[0]}
    if [[ $(tail -n 1 "$log") =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
        passed=$((passed + BASH_REMATCH[1]))
        failed=$((failed + BASH_REMATCH[2]))
        [ "$status" -eq 0 ] || [ "${BASH_REMATCH[2]}" -gt 0 ] || failed=$((failed + 1))
    else
        tail -n 1 "$log"
        failed=$((failed + 1))
    fi
}

case ${1:-} in
    stock)
        board --time exact --device ddr=256M,ddr-bw=1 --sleep --timeout 3000 -- "$run" --exact --quick
        board --device ddr=256M --sleep --timeout 3000 -- "$run" --host --quick
        ;;
    virt)
        board --board virt --device ddr=128M --timeout 3000 -- "$run" --quick-dma
        board --board virt --timeout 3000 -- "$PWD/tests/guest/runtime.sh"
        ;;
    soc)
        "${NPU_BUILD:-build}/bin/npuc" networks/digits/digits.onnx -o "$share/digits.bmodel" >/dev/null || exit 1
        board --board soc --timeout 3000 -- "$PWD/tests/guest/caches.sh" digits.bmodel
        board --board soc --sleep --timeout 3000 -- "$run" --quick-soc
        board --board soc --timeout 3000 -- "$PWD/tests/guest/runtime.sh"
        add_up tests/guest/device_tree.sh
        board --board soc --iommu --device cache-seed=7 --timeout 3000 -- "$PWD/tests/guest/caches.sh" digits.bmodel
        board --board soc --iommu --timeout 3000 -- "$run" coherency
        ;;
    soc-debug)
        make -s module-debug-arm64 || exit 1
        board --board soc "${soc_debug[@]}" --timeout 6000 -- "$run" --debug "${soc_suites[@]}"
        ;;
    iommu) board --iommu --device ddr=128M --timeout 6000 -- "$run" --quick-dma ;;
    debug | debug-use | debug-break)
        make -s module-debug || exit 1
        board "${debug[@]}" --sleep --timeout 6000 -- "$run" "--$1"
        ;;
    cards)
        make -s module-debug || exit 1
        board --iommu --cards 2 --device ddr=128M --timeout 3000 -- "$run" --quick two_cards runtime_two_cards
        board "${debug[@]}" --cards 2 --timeout 3000 -- "$run" --debug two_cards runtime_two_cards
        ;;
    deep)
        make -s module-debug || exit 1
        board "${debug[@]}" --sleep --timeout 14300 -- "$run"
        ;;
    deep-stock) board --sleep --timeout 7100 -- "$run" ;;
    deep-virt) board --board virt --device ddr=256M --sleep --timeout 7100 -- "$run" --quick ;;
    deep-soc)
        board --board soc --sleep --timeout 7100 -- "$run" --quick
        make -s module-debug-arm64 || exit 1
        board --board soc "${soc_debug[@]}" --sleep --timeout 14300 -- "$run" --debug
        ;;
    deep-pages)
        for size in 16K 64K; do
            make -s kernel-debug-arm64 module-debug-arm64 PAGES=$size || exit 1
            board --board soc "${soc_debug[@]}" --kernel "debug-$size" --timeout 6000 -- \
                "$run" --debug "${any_pages[@]}"
            board --board virt --device ddr=256M "${soc_debug[@]}" --kernel "debug-$size" --timeout 6000 -- \
                "$run" --debug "${any_pages[@]}"
        done
        ;;
    deep-iommu) board --iommu --device ddr=128M --sleep --timeout 7100 -- "$run" ;;
    *)
        echo "usage: check.sh stock|virt|soc|soc-debug|iommu|debug|debug-use|debug-break|cards|deep|deep-stock|" \
            "deep-iommu|deep-virt|deep-soc|deep-pages" >&2
        exit 2
        ;;
esac
echo "$passed passed, $failed failed"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
