#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Reads handwritten digits on the NPU: what `make demo` does. The first run sets everything up, which takes minutes;
# later runs find it in the cache.
#
#   demo.sh [BOARD [OPTION...]]  an emulated board with Linux and npu.ko, and further options of npu-vm; default: pc
#   demo.sh sim                  the chip model in the process, no kernel and no QEMU

NPU_STEP=demo
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$NPU_TOP"

case ${1:-} in
    -h | --help)
        sed -n '/^# Reads/,/^$/s/^#[ ]\{0,1\}//p' "$0"
        exit 0
        ;;
esac
BOARD=${1:-pc}
WORK=$NPU_BUILD/demo
NET=$NPU_TOP/networks/digits
if [ "$BOARD" = sim ]; then
    STEPS=4
else
    known=$("$NPU_PYTHON" scripts/npuvm/boards.py "$BOARD" 2>&1) ||
        die "$known, and sim, the chip model in the process"
    eval "$known" # SUFFIX of make's targets for it
    STEPS=7
    [ -z "$SUFFIX" ] || STEPS=8
fi
number=0

headline() {
    number=$((number + 1))
    printf '\n\033[1m[%d/%d] %s\033[0m\n' "$number" "$STEPS" "$1"
}

headline "packages (Debian 12; installs only what is missing)"
make -s setup
headline "libraries, compiler, tools, chip model"
make -s programs
if [ "$BOARD" != sim ]; then
    headline "QEMU with the NPU (built once, about 5 minutes; cached)"
    make -s qemu
    headline "Linux 6.12 from Debian for the board (downloaded once; cached)"
    make -s "kernel-stock$SUFFIX"
    headline "driver npu.ko"
    make -s "module$SUFFIX"
    if [ -n "$SUFFIX" ]; then
        headline "libraries and tools for the board's processor"
        make -s "programs$SUFFIX"
    fi
fi
headline "compiling networks/digits/digits.onnx for the NPU"
mkdir -p "$WORK"
"$NPU_BUILD/bin/npuc" "$NET/digits.onnx" -o "$WORK/digits.bmodel"

if [ "$BOARD" = sim ]; then
    headline "reading digits on the chip model in this process"
    export NPU_DEVICE=sim
    "$NPU_BUILD/bin/npu-smi"
    exec "$NPU_BUILD/bin/digits" "$WORK/digits.bmodel" "$NET"
fi

headline "booting the emulated board"
cp "$NET/test_images.bin" "$NET/test_labels.bin" "$WORK/"
cat >"$WORK/run.sh" <<'RUN'
set -e
dmesg | grep -E 'npu( |:)' | head -n 4
npu-smi
digits digits.bmodel .
RUN
# The board sees when its files were written: always then, so that an exact board's demo can be repeated.
find "$WORK" -exec touch -d 2020-01-01 {} +
exec tools/npu-vm --board "$BOARD" --share "$WORK" --timeout 600 "${@:2}" --env NPU_DEVICE=drm -- sh run.sh
