#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The files of the package qnpu-board, in build/board: npu-vm, the command qnpu-demo, and what both need: QEMU, a
# kernel, the driver, the demo's network and program. They have been built before (make programs qemu kernel-stock
# module). scripts/npuvm/installed.py describes the folder. Prints its path.
#
#   stage-board.sh          copies the files
#   stage-board.sh --state  only prints a hash of them; fails where a part is not built
#
# NPU_QEMU=FILE takes another QEMU with the device than the one of this checkout.

NPU_STEP=stage-board
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$NPU_TOP"

OUT=$NPU_BUILD/board
PARTS=usr/lib/qnpu-board # architecture-dependent
SHARE=usr/share/qnpu/board

# Sets: qemu, env (and its variables), driver, digits.
find_parts() {
    qemu=${NPU_QEMU:-$(qemu-device/qemu/build.sh --print)} || exit 1
    env=$(scripts/kernel-stock.sh --env) || exit 1
    driver=$NPU_BUILD/kernel/qnpu.ko
    digits=$NPU_BUILD/bin/digits
    [ -e "$driver" ] || die "the driver is not built: $driver is missing" "run: make module"
    [ -e "$digits" ] || die "the demo is not built: $digits is missing" "run: make programs"
    # shellcheck source=/dev/null
    . "$env"
}

state() {
    find_parts
    { sha256sum <"$qemu" && sha256sum <"$driver" && sha256sum <"$digits" && echo "$KVERSION"; } | hash_of
}

# The modules that the board loads, in a table that has no others.
stage_kernel() {
    local to=$OUT/$PARTS/linux modules=$OUT/$PARTS/linux/modules path
    mkdir -p "$modules"
    install -m 0644 "$KIMAGE" "$to/"
    "$NPU_PYTHON" - "$NPU_TOP" "$driver" >"$OUT/list" <<'PY'
import sys
sys.path.insert(0, sys.argv[1] + "/scripts")
sys.dont_write_bytecode = True
from npuvm import boards
from npuvm.kernel import Kernel
print("\n".join(Kernel("stock", sys.argv[1], boards.X86_64).module_files(sys.argv[2], [])))
PY
    install -m 0644 "$KMODULES/modules.builtin" "$modules/"
    while read -r path; do
        install -D -m 0644 "$path" "$modules/${path#"$KMODULES"/}"
        grep "^${path#"$KMODULES"/}:" "$KMODULES/modules.dep"
    done <"$OUT/list" >"$modules/modules.dep"
    rm "$OUT/list"
    cat >"$OUT/$PARTS/npu.env" <<ENV
KIMAGE=/$PARTS/linux/$(basename "$KIMAGE")
KVERSION=$KVERSION
KMODULES=/$PARTS/linux/modules
ENV
}

stage_programs() {
    local version
    version=$(sed -nE 's/^project\(qnpu VERSION ([0-9.]+) .*/\1/p' CMakeLists.txt)
    install -D -m 0755 tools/npu-vm "$OUT/$SHARE/tools/npu-vm"
    mkdir -p "$OUT/$SHARE/scripts/npuvm"
    install -m 0644 scripts/npuvm/*.py "$OUT/$SHARE/scripts/npuvm/"
    install -m 0755 scripts/npuvm/init.sh "$OUT/$SHARE/scripts/npuvm/"
    ln -s "../../../lib/${PARTS##*/}" "$OUT/$SHARE/installed"
    install -D -m 0644 -t "$OUT/$SHARE/digits" networks/digits/{digits.onnx,test_images.bin,test_labels.bin}
    echo "$version" >"$OUT/$PARTS/version"
    install -m 0755 "$qemu" "$OUT/$PARTS/qemu-system-x86_64"
    install -D -m 0644 "$driver" "$OUT/$PARTS/kernel/qnpu.ko"
    strip --strip-debug "$OUT/$PARTS/kernel/qnpu.ko"
    install -D -m 0755 "$digits" "$OUT/$PARTS/bin/digits"
    strip --strip-unneeded "$OUT/$PARTS/bin/digits" "$OUT/$PARTS/qemu-system-x86_64"
    patchelf --remove-rpath "$OUT/$PARTS/bin/digits"
    mkdir -p "$OUT/$PARTS/lib"
    ln -s "../../$(gcc -print-multiarch)/libnpumodel.so.1" "$OUT/$PARTS/lib/libnpumodel.so"
    mkdir -p "$OUT/usr/bin"
    ln -s "../${SHARE#usr/}/tools/npu-vm" "$OUT/usr/bin/npu-vm"
    install -m 0755 scripts/qnpu-demo.sh "$OUT/usr/bin/qnpu-demo"
    install -D -m 0644 -t "$OUT/usr/share/man/man1" man/npu-vm.1 man/qnpu-demo.1
}

# Exact versions of the programs under the GPL, whose sources a release has beside it (scripts/release.sh sources).
stage_sources() {
    local history linux version
    history=$(find "$(dirname "$env")/usr/share/doc" -path '*/linux-image-*/changelog*.gz' | head -n 1)
    linux=$(zcat "$history" | sed -nE '1s/^(\S+) \((\S+)\).*/\1 \2/p')
    version=$(LD_LIBRARY_PATH=$NPU_BUILD/lib "$qemu" --version | sed -nE '1s/.* version ([0-9.]+).*/\1/p')
    [ -n "$linux" ] && [ -n "$version" ] || die "the versions of QEMU or of Linux are unknown: '$version', '$linux'"
    install -d "$OUT/usr/share/doc/qnpu-board"
    cat >"$OUT/usr/share/doc/qnpu-board/SOURCES" <<TEXT
Programs of this package under the GNU General Public License, and their sources:

QEMU $version: the source archive of Debian's package qemu, with the device and the patches of qemu-device/qemu
in the source package qnpu of this version; qemu-device/qemu/build.sh builds it.
Linux $KVERSION: the kernel and its modules are those of Debian's package linux-image-$KVERSION
(source: $linux).
qnpu.ko: the folder kernel of the source package qnpu.

A release has the source archives of QEMU and Linux in its folder "sources", beside this package. Debian keeps all of
its versions at https://snapshot.debian.org.
TEXT
}

main() {
    local qemu env driver digits
    case ${1:-} in
        --state)
            state
            return
            ;;
        '') ;;
        *) die "usage: stage-board.sh [--state]" ;;
    esac
    need_program patchelf
    find_parts
    rm -rf "$OUT"
    mkdir -p "$OUT/$PARTS"
    stage_programs
    stage_kernel
    stage_sources
    chmod -R u+rwX,go+rX,go-w "$OUT"
    echo "$OUT"
}

main "$@"
