#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The node of the device tree that describes the block of a SoC: what QEMU writes and the example of the binding keep to
# the binding, and on a board whose node is wrong, or whose block is another chip, the driver says what is missing and
# lets the board be. Prints "N passed, N failed" at the end.
#
# Needs device-tree-compiler, dt-schema, QEMU, Debian's kernel for arm64 and the driver for it.

NPU_STEP=device-tree
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/../../scripts/lib.sh"
set +e
cd "$NPU_TOP" || exit 1

BINDING=kernel/Documentation/qnpu,qnpu1.yaml
BUS=/platform-bus@c000000
NODE=$BUS/npu@0
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
passed=0
failed=0

# check NAME COMMAND...: one test; on failure shows what the command and the last board said.
check() {
    local name=$1
    shift
    if "$@" >"$WORK/said" 2>&1; then
        passed=$((passed + 1))
        echo "ok $((passed + failed)) - $name"
    else
        failed=$((failed + 1))
        echo "not ok $((passed + failed)) - $name"
        cat "$WORK/said" "$WORK/out" 2>/dev/null | tail -n 20 | sed 's/^/# /'
    fi
}
not() { ! "$@"; }
says() { grep -F -- "$1" "$WORK/out"; }

# dump FILE OPTION...: the device tree of a board; QEMU ends once it is written. It leaves room in the file, with twice
# of which the kernel would find the tree too large.
dump() {
    local file=$1 roomy=$WORK/roomy.dtb
    shift
    rm -f "$roomy"
    tools/npu-vm --board soc --no-module "$@" --qemu-arg=-machine --qemu-arg="dumpdtb=$roomy" -- true >"$WORK/out" 2>&1
    dtc -q -I dtb -O dtb "$roomy" -o "$file"
}

# keeps FILE: what of the binding a device tree does not keep to is said; that it has such a node, too.
keeps() {
    local said
    said=$(dt-validate -M -l qnpu,qnpu1.yaml -s kernel/Documentation "$1" 2>&1)
    echo "$said"
    [[ $said == *qnpu,qnpu1.yaml* ]] && ! grep -E ": npu@.*(: '| is | does not | was )" <<<"$said"
}

compile_example() {
    # shellcheck source=/dev/null
    . "$(scripts/kernel-stock.sh --arch arm64 --env)"
    dt-extract-example "$BINDING" >"$WORK/example.dts" &&
        gcc -E -nostdinc -undef -x assembler-with-cpp -I "$(echo "${KDIR%/*}"/linux-headers-*-common)/include" \
            "$WORK/example.dts" -o "$WORK/example.pre" &&
        dtc -q -I dts -O dtb "$WORK/example.pre" -o "$WORK/example.dtb"
}

nothing_is_there() { not says "device accel" && says "unloaded 0"; }

# board OPTION...: loads the driver and says whether there is a device, what the kernel told, and what npu-smi makes of
# it.
board() {
    tools/npu-vm --board soc --no-module --timeout 600 "$@" -- sh -c '
        insmod "$NPU_KO"; ls /dev/accel 2>/dev/null | sed "s/^/device /"
        npu-smi 2>&1 | sed "s/^/npu-smi: /"
        rmmod qnpu; echo "unloaded $?"; dmesg' >"$WORK/out" 2>&1
}

# refused NAME MESSAGE OPTION...: with such a board there is no device, and the driver says why.
refused() {
    local name=$1 message=$2
    shift 2
    board "$@"
    check "$name: the driver says what and where" says "$message"
    check "$name: there is no device, and the driver can be unloaded" nothing_is_there
}

# with_node NAME MESSAGE FDTPUT-ARGUMENT...: likewise, after this change of the node.
with_node() {
    local name=$1 message=$2
    shift 2
    cp "$WORK/good.dtb" "$WORK/wrong.dtb"
    fdtput "$1" "$WORK/wrong.dtb" "${@:2}" || die "fdtput $*"
    refused "$name" "$message" --qemu-arg=-dtb --qemu-arg="$WORK/wrong.dtb"
}

test_binding() {
    local board
    check "the binding is one" dt-doc-validate -u kernel/Documentation "$BINDING"
    check "its example is a device tree" compile_example
    check "its example keeps to it" keeps "$WORK/example.dtb"
    for board in "" "--iommu" "--device managed=off" "--device caches=off"; do
        # shellcheck disable=SC2086 # two words, or none
        check "the board's device tree is written ($board)" dump "$WORK/some.dtb" $board
        check "the board's node keeps to the binding ($board)" keeps "$WORK/some.dtb"
    done
    cp "$WORK/good.dtb" "$WORK/wrong.dtb"
    fdtput -d "$WORK/wrong.dtb" "$NODE" interrupts
    check "a node without interrupt does not" not keeps "$WORK/wrong.dtb"
}

test_wrong_nodes() {
    local where="qnpu c000000.npu:"
    with_node "no interrupt" "$where error -ENXIO: its node has no interrupt that works" -d "$NODE" interrupts
    with_node "a small region" "$where error -EINVAL: reg of its node has 0x100000 bytes, the registers take 0x200000" \
        -tx "$NODE" reg 0 100000
    with_node "no power" "$where [drm] *ERROR* all registers read as ones: it is absent, or has no power or clock" \
        -d "$NODE" power-domains clocks clock-names resets
    with_node "another compatible" "npu-smi: " -ts "$NODE" compatible qnpu,qnpu9
    refused "a chip of another version" "hardware version 2.1, expected 1.x" --device hw-version=0x20001
}

# And that a wrong node was the reason.
test_right_node() {
    board --qemu-arg=-dtb --qemu-arg="$WORK/good.dtb"
    check "with the right node there is a device" says "device accel0"
}

for program in dtc fdtput dt-validate dt-doc-validate dt-extract-example; do need_program $program; done
dump "$WORK/good.dtb" || die "no device tree is written" "$(cat "$WORK/out")"
test_binding
test_wrong_nodes
test_right_node
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
